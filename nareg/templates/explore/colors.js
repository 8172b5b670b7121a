// Color scales that color-blind readers can tell apart: viridis, cividis, blue to vermilion (Okabe and Ito).
const STOPS = {
  viridis: ["#440154", "#482878", "#3e4a89", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"],
  cividis: ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"],
  diverging: ["#005a92", "#0072b2", "#6fa8cf", "#b9d3e6", "#f4f4f2", "#f3cbb2", "#e79a6c", "#d55e00", "#a84800"],
};
const OKABE_ITO = { blue: "#0072b2", vermilion: "#d55e00", green: "#009e73", orange: "#e69f00", pink: "#cc79a7", ink: "#16202a" };

// Scores are drawn up to this one.
const TOP_SCORE = 10;

const channels = (hex) => [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));

function colorAt(scale, share) {
  const stops = STOPS[scale];
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const k = Math.min(Math.floor(place), stops.length - 2);
  const [a, b] = [channels(stops[k]), channels(stops[k + 1])];
  return `rgb(${a.map((value, c) => Math.round(value + (place - k) * (b[c] - value))).join(",")})`;
}
