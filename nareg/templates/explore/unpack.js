// The data of the page: text to typed arrays. The counterpart of nareg/explorer/_pack.py.
const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
const TYPES = { uint16: Uint16Array, uint32: Uint32Array, float32: Float32Array, float64: Float64Array };
const decode = (text, type) => new TYPES[type](bytesOf(text));

// Values low + step * code; NaN where missing.
function unpack(packed) {
  const codes = decode(packed.codes, "uint16");
  return Float64Array.from(codes, (code) => (code === 65535 ? NaN : packed.low + packed.step * code));
}

const data = (() => {
  const raw = JSON.parse(document.getElementById("data").textContent);
  const n = raw.names.length, T = raw.times.length;
  const lower = decode(raw.moment, raw.momentType);
  const moment = new Float64Array(n * n);
  for (let i = 0, k = 0; i < n; i++) for (let j = 0; j <= i; j++, k++) moment[i * n + j] = moment[j * n + i] = lower[k];
  const bad = new Uint8Array(n * T);
  for (const place of decode(raw.bad, "uint32")) bad[place] = 1;
  const suspicious = new Uint8Array(n * T);
  for (const place of decode(raw.suspicious, "uint32")) suspicious[place] = 1;
  return {
    ...raw, n, T, moment, bad, suspicious,
    from: decode(raw.edges.from, "uint16"), to: decode(raw.edges.to, "uint16"), weight: decode(raw.edges.weight, "float64"),
    readings: unpack(raw.readings), truth: raw.truth && unpack(raw.truth), scores: raw.scores && unpack(raw.scores), levels: decode(raw.levels, "float64"),
    cleaned: { ...raw.cleaned, x: unpack(raw.cleaned.x), low: unpack(raw.cleaned.low), high: unpack(raw.cleaned.high) },
    designs: {
      one: raw.designs.one, node: raw.designs.node.map((text) => decode(text, "float64")),
      edge: raw.designs.edge.map((text) => decode(text, "float64")),
    },
  };
})();
