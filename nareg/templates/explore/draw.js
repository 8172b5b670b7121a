// Small helpers: elements, numbers, axes. Text enters the page as text only.
const $ = (id) => document.getElementById(id);
const NAMESPACE = "http://www.w3.org/2000/svg";

function element(parent, name, attributes = {}, text = null) {
  const svg = parent instanceof SVGElement;
  const made = svg || name === "svg" ? document.createElementNS(NAMESPACE, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  parent.appendChild(made);
  return made;
}

const clear = (parent) => parent.replaceChildren();

// Three significant digits, no exponent for everyday sizes.
function format(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(1);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 || size === 0 ? 2 : 3);
}
const withUnit = (value) => (Number.isFinite(value) && data.unit ? `${format(value)} ${data.unit}` : format(value));

// Round numbers between low and high, about `count` of them.
function ticks(low, high, count) {
  const raw = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= raw);
  const result = [];
  for (let k = Math.ceil(low / step); k * step <= high + 1e-9 * step; k++) result.push(Number((k * step).toPrecision(12)));
  return result;
}

function range(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return [0, 1];
  return low === high ? [low - 1, high + 1] : [low, high];
}

// Times without what all of them share: seconds, and midnight.
const timeLabels = (() => {
  let labels = data.times.map((time) => time.replace("T", " ").replace(/(\d\d:\d\d:\d\d)\.0+$/, "$1"));
  for (const tail of [":00", " 00:00"]) {
    if (labels.every((label) => /^\d{4}-\d\d-\d\d \d\d:\d\d/.test(label) && label.endsWith(tail))) {
      labels = labels.map((label) => (tail === ":00" && label.length <= 16 ? label : label.slice(0, -tail.length)));
    }
  }
  return labels;
})();
