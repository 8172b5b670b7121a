// One station over time: truth, readings, estimate with its band; below, the error.
const chart = (() => {
  const LEFT = 52, RIGHT = 12, TOP = 12, MAIN = 250, GAP = 26, BELOW = 92, STRIP = 62, FOOT = 26, LETTER = 7.5;
  const BEGIN = TOP + MAIN + GAP; // of the strips below the readings
  const svg = $("chart");
  let WIDTH = 1000; // of the page, so that text keeps its size on a phone
  let job = 0;

  // First and last column of the window around the current time.
  function span() {
    if (!state.window || state.window >= data.T) return [0, data.T - 1];
    const first = Math.min(Math.max(state.time - Math.floor(state.window / 2), 0), data.T - state.window);
    return [first, first + state.window - 1];
  }

  function axis(area, low, high, top, size, count, name) {
    const y = (value) => top + size - ((value - low) / (high - low)) * size;
    for (const tick of ticks(low, high, count)) {
      element(area, "path", { d: `M${LEFT} ${y(tick).toFixed(1)}H${WIDTH - RIGHT}`, stroke: "#e3e7ea" });
      element(area, "text", { x: LEFT - 8, y: y(tick) + 5, "text-anchor": "end" }, String(tick));
    }
    element(area, "text", { x: LEFT + 2, y: top - 2, "font-weight": 600 }, name);
    return y;
  }

  // A line through rows that follow each other; gaps stay open.
  function pathOf(rows, key, x, y) {
    let path = "", pen = false, previous = -2;
    for (const row of rows) {
      const there = Number.isFinite(row[key]);
      if (there) path += `${pen && row.t === previous + 1 ? "L" : "M"}${x(row.t).toFixed(1)} ${y(row[key]).toFixed(1)}`;
      pen = there;
      previous = row.t;
    }
    return path;
  }

  function draw(done) {
    const i = state.station;
    const [first, last] = span();
    const x = (t) => LEFT + ((t - first) / Math.max(last - first, 1)) * (WIDTH - LEFT - RIGHT); // as wide as the card is now
    const rows = [];
    for (let t = first; t <= last; t++) {
      if (!done.has(t)) continue;
      const now = model.at(t);
      const [low, high] = model.band(t, i);
      rows.push({ t, x: now.x[i], low, high, read: now.seen[i] ? now.y[i] : NaN, left: !now.seen[i] && !state.off.has(i) ? now.y[i] : NaN, others: state.others ? model.others(t, i) : NaN, truth: truthOf(t, i), error: now.x[i] - model.reference(t, i) });
    }
    WIDTH = Math.max(Math.round(svg.parentElement.clientWidth) - 30, 300);
    const size = Math.max(...rows.map((row) => Math.abs(row.error)).filter(Number.isFinite), 0);
    const scores = size ? BEGIN + BELOW + GAP : BEGIN;
    const foot = data.scores ? scores + STRIP : scores - GAP;
    const HEIGHT = foot + FOOT;
    clear(svg);
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    element(svg, "rect", { width: WIDTH, height: HEIGHT, fill: "#ffffff" });
    const area = element(svg, "g", { "font-size": 13, fill: "#4a5963" });
    const [low, high] = range(rows.flatMap((row) => [row.low, row.high, row.read, row.truth, row.left, row.others].filter(Number.isFinite)));
    const margin = 0.05 * (high - low);
    const y = axis(area, low - margin, high + margin, TOP + 8, MAIN - 8, 5, data.unit);
    if (size) {
      const below = axis(area, -1.1 * size, 1.1 * size, BEGIN, BELOW, 3, `error of the estimate${data.unit && `, ${data.unit}`}`);
      element(svg, "path", { d: `M${LEFT} ${below(0)}H${WIDTH - RIGHT}`, stroke: "#8b979f" });
      element(svg, "path", { d: pathOf(rows, "error", x, below), stroke: OKABE_ITO.vermilion, "stroke-width": 1.6, fill: "none" });
    }
    const room = 1.6 * LETTER * timeLabels[last].length; // the outer labels lie inside, so that their neighbors are nearer
    const labels = Math.max(Math.min(Math.floor((WIDTH - LEFT) / room), last - first), 1);
    for (let k = 0; k <= labels; k++) {
      const t = Math.round(first + (k / labels) * (last - first));
      element(area, "text", { x: x(t), y: HEIGHT - 7, "text-anchor": k === 0 ? "start" : k === labels ? "end" : "middle" }, timeLabels[t]);
    }
    const faults = data.suspects.filter((s) => s.station === i && s.stop >= first && s.start <= last);
    for (const suspect of faults) {
      const [from, to] = [x(Math.max(suspect.start, first)), x(Math.min(suspect.stop, last))];
      element(svg, "rect", { x: from, y: TOP, width: Math.max(to - from, 3), height: MAIN, fill: OKABE_ITO.vermilion, "fill-opacity": 0.1 });
    }
    if (faults.length) { // named beside the first one, where no reading is covered
      const from = x(Math.max(Math.min(...faults.map((s) => s.start)), first));
      const left = from > LEFT + 140;
      const place = { x: left ? from - 6 : from + 6, y: TOP + 22, "text-anchor": left ? "end" : "start" };
      element(svg, "text", { ...place, fill: "#a84800", "font-size": 15, "font-weight": 700, stroke: "#fff", "stroke-width": 4, "paint-order": "stroke" }, [...new Set(faults.map((s) => s.kind))].join(", "));
    }
    const band = rows.filter((row) => Number.isFinite(row.low));
    if (band.length) {
      const edge = (key) => band.map((row) => `${x(row.t).toFixed(1)} ${y(row[key]).toFixed(1)}`);
      element(svg, "path", { d: `M${edge("high").join("L")}L${edge("low").reverse().join("L")}Z`, fill: OKABE_ITO.blue, "fill-opacity": 0.18 });
    }
    const dots = (key) => rows.filter((row) => Number.isFinite(row[key])).map((row) => `M${x(row.t).toFixed(1)} ${y(row[key]).toFixed(1)}h0`).join("");
    const thick = last - first > 400 ? 3 : 5;
    element(svg, "path", { d: dots("read"), stroke: "#75828b", "stroke-width": thick, "stroke-linecap": "round", fill: "none" });
    for (const row of rows.filter((row) => Number.isFinite(row.left))) {
      element(svg, "path", { d: `M${x(row.t) - 4} ${y(row.left) - 4}l8 8m0 -8l-8 8`, stroke: OKABE_ITO.vermilion, "stroke-width": 1.6 });
    }
    if (state.others) element(svg, "path", { d: pathOf(rows, "others", x, y), stroke: OKABE_ITO.green, "stroke-width": 1.8, fill: "none" });
    if (data.truth || state.snr) element(svg, "path", { d: pathOf(rows, "truth", x, y), stroke: OKABE_ITO.ink, "stroke-width": 1.5, "stroke-dasharray": "5 3", fill: "none" });
    element(svg, "path", { d: pathOf(rows, "x", x, y), stroke: OKABE_ITO.blue, "stroke-width": 2.2, fill: "none" });
    element(svg, "path", { d: `M${x(state.time).toFixed(1)} ${TOP}V${foot}`, stroke: OKABE_ITO.ink, "stroke-width": 1.2, "stroke-dasharray": "2 3" });
    if (data.scores) strip(area, rows, x, i, scores);
    const learned = rows.filter((row) => data.learned[row.t]).map((row) => `M${x(row.t - 0.5).toFixed(1)} ${TOP + MAIN + 3}H${x(row.t + 0.5).toFixed(1)}`);
    element(svg, "path", { d: learned.join(""), stroke: "#c3ccd2", "stroke-width": 5 });
  }

  // The score of each reading as it was read, the largest over all tests of nareg.quality.
  function strip(area, rows, x, i, top) {
    const y = axis(area, 0, TOP_SCORE, top, STRIP, 2, "score of the reading, in standard deviations; flagged bad: red, suspect: orange");
    const bars = { good: "", suspect: "", bad: "" };
    for (const row of rows) {
      const score = data.scores[i * data.T + row.t];
      const place = i * data.T + row.t;
      if (Number.isFinite(score)) bars[data.bad[place] ? "bad" : data.suspicious[place] ? "suspect" : "good"] += `M${x(row.t).toFixed(1)} ${y(0)}V${y(Math.min(score, TOP_SCORE)).toFixed(1)}`;
    }
    const width = Math.max((0.7 * (WIDTH - LEFT - RIGHT)) / Math.max(rows.length, 1), 1);
    element(svg, "path", { d: bars.good, stroke: "#9aa6ae", "stroke-width": Math.min(width, 8) });
    element(svg, "path", { d: bars.suspect, stroke: OKABE_ITO.orange, "stroke-width": Math.min(Math.max(width, 2), 8) });
    element(svg, "path", { d: bars.bad, stroke: OKABE_ITO.vermilion, "stroke-width": Math.min(Math.max(width, 2), 8) });
  }

  // Compute what is in view first, then all times, in slices that leave the page free.
  function update(finished) {
    const mine = ++job;
    const [first, last] = span();
    const order = [];
    for (let t = first; t <= last; t++) order.push(t);
    for (let t = 0; t < data.T; t++) if (t < first || t > last) order.push(t);
    const done = new Set();
    const sums = { estimate: 0, count: 0, reading: 0, read: 0, inside: 0, checked: 0 };
    const judged = data.learned.every(Boolean) ? () => true : (t) => !data.learned[t];
    let k = 0, drawn = false;
    const slice = () => {
      if (mine !== job) return;
      const until = performance.now() + 14;
      while (k < order.length && performance.now() < until) {
        const t = order[k++];
        if (t >= first && t <= last) {
          model.band(t, state.station);
          if (state.others) model.others(t, state.station);
        }
        if (judged(t)) model.score(t, sums);
        done.add(t);
      }
      if (!drawn && k >= last - first + 1) {
        drawn = true;
        draw(done);
      }
      if (k < order.length) {
        $("progress").textContent = `computing ${k} of ${order.length} times`;
        setTimeout(slice, 0);
      } else {
        $("progress").textContent = "";
        finished(sums);
      }
    };
    slice();
  }

  return { update };
})();
