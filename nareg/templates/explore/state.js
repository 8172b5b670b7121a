// What the user chose. It lives in the address after #, so that a link shows the same view.
const METHODS = {
  cleaned: data.cleaned.method, one: "one weight", node: "node weights", edge: "edge weights", wiener: "Wiener filter",
};
const SHOWS = { estimate: "estimate", reading: "readings", truth: "truth", error: "error", std: "expected error", score: "score of the reading" };
if (!data.scores) delete SHOWS.score;
const WINDOWS = [0, 200, 50];

const state = {
  time: data.suspects.length ? data.suspects[0].start : Math.floor(data.T / 2),
  station: data.suspects.length ? data.suspects[0].station : 0,
  method: "cleaned", snr: 0, missing: 0, off: new Set(), keepBad: false, show: "estimate", edges: true, fixed: true, others: true,
  window: data.T > 400 ? 200 : 0, answers: [],
};

const listeners = [];
const onChange = (listener) => listeners.push(listener);

function set(changes) {
  Object.assign(state, changes);
  if (state.method === "cleaned" && (state.snr || state.missing || state.off.size || state.keepBad)) state.method = "edge";
  history.replaceState(null, "", `#${link()}`);
  for (const listener of listeners) listener();
}

const whole = (text) => (/^\d{1,9}$/.test(text) ? Number(text) : NaN);
const FIELDS = {
  time: ["t", whole], station: ["s", whole], method: ["m", String], snr: ["snr", whole], missing: ["miss", whole],
  show: ["show", String], window: ["w", whole],
};
const FLAGS = { edges: "edges", fixed: "fixed", others: "others", keepBad: "bad" };

function link() {
  const query = new URLSearchParams();
  for (const [name, [key]] of Object.entries(FIELDS)) query.set(key, state[name]);
  for (const [name, key] of Object.entries(FLAGS)) query.set(key, state[name] ? 1 : 0);
  if (state.off.size) query.set("off", [...state.off].join("."));
  if (state.answers.length) query.set("q", state.answers.join("."));
  return query.toString();
}

// Changes that a link asks for; what is not valid is left out.
function parseLink(text) {
  const query = new URLSearchParams(text);
  const changes = {};
  for (const [name, [key, read]] of Object.entries(FIELDS)) if (query.has(key)) changes[name] = read(query.get(key));
  for (const [name, key] of Object.entries(FLAGS)) if (query.has(key)) changes[name] = query.get(key) === "1";
  const below = (limit) => (value) => value < limit; // false for NaN
  const valid = {
    time: below(data.T), station: below(data.n), method: (v) => Object.hasOwn(METHODS, v), show: (v) => Object.hasOwn(SHOWS, v),
    snr: below(data.snrs.length), missing: below(91), window: (v) => WINDOWS.includes(v),
  };
  for (const [name, test] of Object.entries(valid)) if (name in changes && !test(changes[name])) delete changes[name];
  const numbers = (key) => (query.get(key) || "").split(".").map(whole);
  changes.off = new Set(numbers("off").filter(below(data.n)));
  changes.answers = numbers("q").filter(below(9)).slice(0, 3);
  return changes;
}
