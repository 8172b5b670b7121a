// Random numbers by counter: the same for a station and time whatever was asked before, so that sliders only scale them.
function uniform(stream, station, time) {
  let h = (stream * 0x9e3779b1) ^ Math.imul(station + 1, 0x85ebca6b) ^ Math.imul(time + 1, 0xc2b2ae35);
  for (const factor of [0x7feb352d, 0x846ca68b]) {
    h = Math.imul(h ^ (h >>> 16), factor);
    h ^= h >>> 15;
  }
  return ((h ^ (h >>> 16)) >>> 0) / 4294967296;
}

// A standard normal number (Box and Muller, 1958).
const normal = (station, time) =>
  Math.sqrt(-2 * Math.log(1 - uniform(1, station, time))) * Math.cos(2 * Math.PI * uniform(2, station, time));

// Hidden readings are nested: those hidden at 10 % are hidden at 20 % too.
const isHidden = (station, time, share) => uniform(3, station, time) < share;
