// The denoiser (C + S) x = C y, dense: the answers of nareg.filters.interpolate and nareg.baselines.lmmse.

// Lower Cholesky factor of a symmetric matrix (n * n), in place; null where a pivot is not positive.
function cholesky(A, n) {
  for (let i = 0; i < n; i++) {
    const row = i * n;
    const scale = A[row + i];
    for (let j = 0; j <= i; j++) {
      const other = j * n;
      let sum = A[row + j];
      for (let k = 0; k < j; k++) sum -= A[row + k] * A[other + k];
      if (j < i) A[row + j] = sum / A[other + j];
      else {
        if (!(sum > 1e-14 * scale)) return null;
        A[row + i] = Math.sqrt(sum);
      }
    }
  }
  return A;
}

// Solve L L' x = b; b is overwritten.
function substitute(L, n, b) {
  for (let i = 0; i < n; i++) {
    let sum = b[i];
    for (let k = 0; k < i; k++) sum -= L[i * n + k] * b[k];
    b[i] = sum / L[i * n + i];
  }
  for (let i = n - 1; i >= 0; i--) {
    const x = (b[i] /= L[i * n + i]);
    for (let k = 0; k < i; k++) b[k] -= L[i * n + k] * x;
  }
  return b;
}

// S as its diagonal, then its entries at the edges: of node weights w, diag(w) L diag(w).
function nodePenalty(w) {
  const { n, from, to, weight } = data;
  const S = new Float64Array(n + from.length);
  for (let e = 0; e < from.length; e++) {
    const [i, j] = [from[e], to[e]];
    S[i] += weight[e] * w[i] * w[i];
    S[j] += weight[e] * w[j] * w[j];
    S[n + e] = -weight[e] * w[i] * w[j];
  }
  return S;
}

// Dense C + S with the data term of the stations in c.
function system(S, c) {
  const { n, from, to } = data;
  const K = new Float64Array(n * n);
  for (let i = 0; i < n; i++) K[i * n + i] = S[i] + c[i];
  for (let e = 0; e < from.length; e++) K[from[e] * n + to[e]] = K[to[e] * n + from[e]] = S[n + e];
  return K;
}

// Stations that no reading reaches over edges with S not zero: they keep their mean.
function unreached(S, seen) {
  const { n, from, to } = data;
  const reached = Uint8Array.from(seen);
  for (let changed = true; changed; ) {
    changed = false;
    for (let e = 0; e < from.length; e++) {
      if (S[n + e] !== 0 && reached[from[e]] !== reached[to[e]]) {
        reached[from[e]] = reached[to[e]] = 1;
        changed = true;
      }
    }
  }
  return reached.map((r) => 1 - r);
}

function factored(S, seen) {
  const alone = unreached(S, seen);
  const c = Float64Array.from(seen, (s, i) => (s || alone[i] ? 1 : 0));
  return { L: cholesky(system(S, c), data.n), c: Float64Array.from(seen), alone };
}

// Weights near zero inflate estimates at stations without a reading: the bound and the repair of nareg.filters.interpolate.
const LARGEST_AMPLIFICATION = 2;

function amplification(w, seen) {
  const size = w.map(Math.abs);
  let largest = 0, smallest = Infinity;
  seen.forEach((s, i) => (s ? (largest = Math.max(largest, size[i])) : (smallest = Math.min(smallest, size[i]))));
  if (smallest === Infinity || largest <= LARGEST_AMPLIFICATION * smallest) return 0;
  const { L, c } = factored(nodePenalty(w), seen);
  if (!L) return Infinity;
  const x = substitute(L, data.n, c.map((ci, i) => (w[i] < 0 ? -ci : ci)));
  return x.reduce((worst, value, i) => (seen[i] ? worst : Math.max(worst, Math.abs(value))), 0);
}

// Stations without a reading take the harmonic mean of their neighbors' |w|; those that read keep their weight.
function averagedWeights(w, seen) {
  const unit = nodePenalty(w.map(() => 1));
  const { n, from, to } = data;
  const K = system(unit, new Float64Array(n));
  const rhs = new Float64Array(n);
  for (let e = 0; e < from.length; e++) {
    const [i, j] = [from[e], to[e]];
    if (seen[i] && !seen[j]) rhs[j] -= unit[n + e] * Math.abs(w[i]);
    if (seen[j] && !seen[i]) rhs[i] -= unit[n + e] * Math.abs(w[j]);
    if (seen[i] || seen[j]) K[i * n + j] = K[j * n + i] = 0;
  }
  seen.forEach((s, i) => s && ((K[i * n + i] = 1), (rhs[i] = 0)));
  const alone = unreached(unit, seen);
  alone.forEach((a, i) => a && (K[i * n + i] += 1));
  const L = cholesky(K, n);
  if (!L) return singleWeight(w);
  const mean = substitute(L, n, rhs);
  return w.map((wi, i) => (seen[i] ? wi : mean[i] > 0 ? mean[i] : Math.abs(wi)));
}

function singleWeight(w) {
  const sizes = w.map(Math.abs).filter((size) => size > 0);
  return w.map(() => Math.exp(sizes.reduce((sum, size) => sum + Math.log(size), 0) / sizes.length));
}

function safeWeights(w, seen) {
  if (amplification(w, seen) <= LARGEST_AMPLIFICATION) return { w, replaced: "" };
  const averaged = averagedWeights(w, seen);
  if (amplification(averaged, seen) <= LARGEST_AMPLIFICATION) {
    return { w: averaged, replaced: "Stations without a reading take their neighbors' weights, because their own would inflate the estimate." };
  }
  return { w: singleWeight(w), replaced: "One weight is used here, because node weights would inflate the estimate." };
}

// A filter for one pattern of readings. estimate(z): from centered readings; row(i): weights of the readings at station i.
function graphFilter(S, seen, replaced = "") {
  const { n } = data;
  const { L, c, alone } = factored(S, seen);
  if (!L) return null;
  return {
    S, alone, replaced,
    estimate: (z) => substitute(L, n, z.map((value, i) => (seen[i] ? value : 0))),
    row: (i) => {
      const unit = new Float64Array(n);
      unit[i] = 1;
      return alone[i] ? new Float64Array(n) : substitute(L, n, unit).map((value, j) => c[j] * value);
    },
  };
}

function wienerFilter(noise, seen) {
  const { n, moment } = data;
  const at = [...seen.keys()].filter((i) => seen[i]);
  const m = at.length;
  const A = new Float64Array(m * m);
  at.forEach((i, a) => at.forEach((j, b) => (A[a * m + b] = moment[i * n + j] + (a === b ? noise : 0))));
  const L = cholesky(A, m);
  if (!L) return null;
  return {
    S: null, alone: new Uint8Array(n), replaced: "",
    estimate: (z) => {
      const inner = substitute(L, m, Float64Array.from(at, (i) => z[i]));
      return Float64Array.from({ length: n }, (_, i) => at.reduce((sum, j, b) => sum + moment[i * n + j] * inner[b], 0));
    },
    row: (i) => {
      const inner = substitute(L, m, Float64Array.from(at, (j) => moment[i * n + j]));
      const row = new Float64Array(n);
      at.forEach((j, b) => (row[j] = inner[b]));
      return row;
    },
  };
}
