// Readings, estimates, bands and errors of the chosen setting, computed when they are asked for.
const model = (() => {
  const { n, T } = data;
  const Z90 = 1.6448536269514722;
  let setting = "", times = new Map(), filters = new Map(), bands = new Map(), without = new Map();

  const settingOf = () => [state.method, state.snr, state.missing, [...state.off].sort((a, b) => a - b).join("."), state.keepBad].join("|");
  function refresh() {
    const now = settingOf();
    if (now === setting) return;
    setting = now;
    times = new Map();
    filters = new Map();
    bands = new Map();
    without = new Map();
  }

  const addedNoise = () => (state.snr ? Math.sqrt(data.power / 10 ** (data.snrs[state.snr] / 10)) : 0);

  // The readings at one time as the filter sees them: noise added, some hidden, some silent, flagged ones left out.
  function inputs(t) {
    const sigma = addedNoise();
    const y = new Float64Array(n), seen = new Uint8Array(n);
    for (let i = 0; i < n; i++) {
      const place = i * T + t;
      y[i] = data.readings[place] + (sigma ? sigma * normal(i, t) : 0);
      const left = (state.missing && isHidden(i, t, state.missing / 100)) || state.off.has(i);
      seen[i] = Number.isFinite(y[i]) && !left && (state.keepBad || !data.bad[place]) ? 1 : 0;
    }
    return { y, seen };
  }

  function build(seen, method) {
    const k = state.snr;
    if (method === "wiener") return wienerFilter(data.variances[k], seen);
    const one = () => graphFilter(nodePenalty(new Float64Array(n).fill(data.designs.one[k])), seen);
    if (method === "one") return one();
    if (method === "node") {
      const { w, replaced } = safeWeights(data.designs.node[k], seen);
      return graphFilter(nodePenalty(w), seen, replaced);
    }
    const filter = graphFilter(data.designs.edge[k], seen);
    if (filter) return filter;
    return { ...one(), replaced: "One weight is used here, because the edge weights have no solution for these gaps." };
  }

  function filterFor(seen, method = state.method) {
    const pattern = method + seen.join("");
    if (!filters.has(pattern)) {
      if (filters.size >= 6) filters.delete(filters.keys().next().value);
      filters.set(pattern, build(seen, method));
    }
    return filters.get(pattern);
  }

  // Estimate (n) at one time, with what was read.
  function at(t) {
    refresh();
    if (times.has(t)) return times.get(t);
    const { y, seen } = inputs(t);
    let result;
    if (state.method === "cleaned") {
      result = { y, seen, x: Float64Array.from({ length: n }, (_, i) => data.cleaned.x[i * T + t]), alone: null, replaced: "" };
    } else if (!seen.some(Boolean)) {
      result = { y, seen, x: Float64Array.from(data.levels), alone: new Uint8Array(n).fill(1), replaced: "" };
    } else {
      const filter = filterFor(seen);
      const z = filter.estimate(y.map((value, i) => value - data.levels[i]));
      result = { y, seen, x: z.map((value, i) => value + data.levels[i]), alone: filter.alone, replaced: filter.replaced };
    }
    times.set(t, result);
    return result;
  }

  // Half width of the band of 90 % at one station and time: from the expected error (h - e)' R (h - e) + noise h' h.
  function reach(t, i) {
    if (state.method === "cleaned") return (data.cleaned.high[i * T + t] - data.cleaned.low[i * T + t]) / 2;
    const { seen } = at(t);
    const key = t * n + i;
    if (!bands.has(key)) {
      const h = seen.some(Boolean) ? filterFor(seen).row(i) : new Float64Array(n);
      const noise = data.variances[state.snr];
      let error = 0;
      for (let a = 0; a < n; a++) {
        const left = h[a] - (a === i ? 1 : 0);
        error += noise * h[a] * h[a];
        if (left) for (let b = 0; b < n; b++) error += left * data.moment[a * n + b] * (h[b] - (b === i ? 1 : 0));
      }
      bands.set(key, Z90 * Math.sqrt(Math.max(error, 0)));
    }
    return bands.get(key);
  }

  function band(t, i) {
    if (state.method === "cleaned") return [data.cleaned.low[i * T + t], data.cleaned.high[i * T + t]];
    const x = at(t).x[i], half = reach(t, i);
    return [x - half, x + half];
  }

  // What edge weights say about a station without its own reading: (x - h y) / (1 - h), with h the reading's weight in x.
  function others(t, i) {
    const key = t * n + i;
    if (!without.has(key)) {
      const { y, seen } = at(t);
      let value = NaN;
      if (seen.some((s, j) => s && j !== i)) {
        const filter = filterFor(seen, "edge");
        const x = filter.estimate(y.map((reading, j) => reading - data.levels[j]))[i];
        const own = seen[i] ? filter.row(i)[i] : 0;
        value = 1 - own > 1e-9 ? data.levels[i] + (x - (own ? own * (y[i] - data.levels[i]) : 0)) / (1 - own) : NaN;
      }
      without.set(key, value);
    }
    return without.get(key);
  }

  // The value that an error refers to; NaN where there is none that the filter did not see.
  function reference(t, i) {
    const place = i * T + t;
    if (data.truth) return data.truth[place];
    if (data.bad[place]) return NaN;
    return state.snr || !at(t).seen[i] ? data.readings[place] : NaN;
  }

  // Sums of squares over the times that no design learned from.
  function score(t, sums) {
    const { x, y, seen } = at(t);
    for (let i = 0; i < n; i++) {
      const ref = reference(t, i);
      if (!Number.isFinite(ref)) continue;
      sums.estimate += (x[i] - ref) ** 2;
      sums.count++;
      if (seen[i]) {
        sums.reading += (y[i] - ref) ** 2;
        sums.read++;
      }
      if (i === state.station) {
        const [low, high] = band(t, i);
        sums.inside += ref >= low && ref <= high;
        sums.checked++;
      }
    }
  }

  // What the design joins: |S_ij| per edge, and its sign.
  function edgeWeights() {
    if (state.method === "wiener" || state.method === "cleaned") return data.weight;
    if (state.method === "edge") return data.designs.edge[state.snr].subarray(n).map((value) => -value);
    const w = state.method === "one" ? new Float64Array(n).fill(data.designs.one[state.snr]) : data.designs.node[state.snr];
    return nodePenalty(w).subarray(n).map((value) => -value);
  }

  return { at, reach, band, others, reference, score, edgeWeights, inputs, settingOf };
})();
