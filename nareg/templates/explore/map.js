// The map: land, edges, stations.
const map = (() => {
  const svg = $("map");
  const phone = svg.parentElement.clientWidth < 600;
  const WIDTH = phone ? 480 : 1000, PAD = phone ? 30 : 46, LOWEST = 0.5, HIGHEST = phone ? 1.1 : 0.8;
  const raw = data.places.map(([a, b]) => (data.geographic ? [b, a] : [a, b]));
  const middle = raw.reduce((sum, [, y]) => sum + y, 0) / data.n;
  const stretch = data.geographic ? Math.max(Math.cos((middle * Math.PI) / 180), 0.05) : 1;
  const [west, east] = range(raw.map(([x]) => x)), [south, north] = range(raw.map(([, y]) => y));
  const wide = Math.max((east - west) * stretch, 1e-9), tall = Math.max(north - south, 1e-9);
  const height = Math.round(Math.min(Math.max(tall / wide, LOWEST), HIGHEST) * (WIDTH - 2 * PAD) + 2 * PAD);
  const scale = Math.min((WIDTH - 2 * PAD) / wide, (height - 2 * PAD) / tall);
  const project = (x, y) => [
    WIDTH / 2 + (x - (west + east) / 2) * stretch * scale, height / 2 - (y - (south + north) / 2) * scale,
  ];
  const radius = Math.max(4.5, Math.min(11, (0.11 * WIDTH) / Math.sqrt(data.n)));
  const points = raw.map(([x, y]) => project(x, y));
  let lines = [], dots = [], marks = [], halo;

  const pathOf = (flat) => {
    let path = "";
    for (let k = 0; k < flat.length; k += 2) {
      const [x, y] = project(flat[k], flat[k + 1]);
      path += `${k ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    }
    return path;
  };

  function build() {
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${height}`);
    const land = data.coast.land.length > 0;
    element(svg, "rect", { width: WIDTH, height, fill: land ? "#dde8ef" : "#f5f6f4" });
    element(svg, "path", { d: data.coast.land.map((ring) => pathOf(ring) + "Z").join(""), fill: "#f7f5ef", stroke: "#9fb0ba", "stroke-width": 1, "fill-rule": "evenodd" });
    element(svg, "path", { d: data.coast.borders.map(pathOf).join(""), fill: "none", stroke: "#b9b4a6", "stroke-width": 1.2, "stroke-dasharray": "6 4" });
    if (data.geographic) graticule();
    const net = element(svg, "g", { id: "edges", "stroke-linecap": "round" });
    lines = Array.from(data.from, (i, e) => {
      const [[x1, y1], [x2, y2]] = [points[i], points[data.to[e]]];
      return element(net, "line", { x1: x1.toFixed(1), y1: y1.toFixed(1), x2: x2.toFixed(1), y2: y2.toFixed(1) });
    });
    halo = element(svg, "circle", { r: radius + 6, fill: "none", stroke: OKABE_ITO.ink, "stroke-width": 3 });
    const group = element(svg, "g");
    const suspects = new Set(data.suspects.map((s) => s.station));
    dots = points.map(([x, y], i) => {
      const dot = element(group, "circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: radius, "data-station": i, class: "dot" });
      element(dot, "title", {}, data.names[i]);
      dot.addEventListener("click", () => set({ station: i }));
      dot.addEventListener("pointerenter", () => describe(i));
      dot.addEventListener("pointerleave", () => describe(state.station));
      return dot;
    });
    marks = points.map(([x, y], i) => {
      const mark = element(group, "g", { "pointer-events": "none" });
      if (suspects.has(i)) {
        element(mark, "circle", { cx: x, cy: y, r: radius + 4, fill: "none", stroke: OKABE_ITO.vermilion, "stroke-width": 3, "stroke-dasharray": "5 3" });
        element(mark, "text", { x: x + radius + 6, y: y - radius, fill: "#a84800", "font-size": 24, "font-weight": 700, stroke: "#fff", "stroke-width": 4, "paint-order": "stroke" }, "!");
      }
      const cross = element(mark, "path", { d: `M${x - radius} ${y - radius}l${2 * radius} ${2 * radius}m0 ${-2 * radius}l${-2 * radius} ${2 * radius}`, stroke: OKABE_ITO.ink, "stroke-width": 2.5, class: "cross" });
      return { mark, cross };
    });
  }

  function graticule() {
    const step = ticks(0, WIDTH / scale / stretch, phone ? 3 : 5)[1] || 1;
    const longitude = (px) => (west + east) / 2 + (px - WIDTH / 2) / scale / stretch;
    const latitude = (px) => (south + north) / 2 - (px - height / 2) / scale;
    const lines = element(svg, "g", { stroke: "#8aa0ad", "stroke-opacity": 0.35, "stroke-width": 0.8 });
    const labels = element(svg, "g", { fill: "#5b6b75", "font-size": phone ? 12 : 15 });
    const side = (value, plus, minus) => `${Number(Math.abs(value).toPrecision(6))}° ${value < 0 ? minus : plus}`;
    for (let k = Math.ceil(longitude(0) / step); k * step <= longitude(WIDTH); k++) {
      const [x] = project(k * step, 0);
      element(lines, "path", { d: `M${x} 0V${height}` });
      if (x > 40 && x < WIDTH - 60) element(labels, "text", { x: x + 4, y: height - 8 }, side(k * step, "E", "W"));
    }
    for (let k = Math.ceil(latitude(height) / step); k * step <= latitude(0); k++) {
      const [, y] = project(0, k * step);
      element(lines, "path", { d: `M0 ${y}H${WIDTH}` });
      if (y > 24 && y < height - 30) element(labels, "text", { x: 6, y: y - 5 }, side(k * step, "N", "S"));
    }
  }

  // The shown quantity at one station and time.
  function valueOf(t, i) {
    const now = model.at(t);
    if (state.show === "estimate") return now.x[i];
    if (state.show === "reading") return now.seen[i] ? now.y[i] : NaN;
    if (state.show === "truth") return truthOf(t, i);
    if (state.show === "score") return data.scores[i * data.T + t];
    if (state.show === "std") return model.reach(t, i) / 1.6448536269514722;
    return now.x[i] - model.reference(t, i);
  }

  const everyTime = (() => {
    const finite = Array.from(data.cleaned.x).filter(Number.isFinite).sort((a, b) => a - b);
    return [finite[Math.floor(0.005 * finite.length)], finite[Math.ceil(0.995 * finite.length) - 1]];
  })();

  function limits(values) {
    const finite = values.filter(Number.isFinite);
    if (state.show === "error") {
      const size = Math.max(...finite.map(Math.abs), 1e-12);
      return [-size, size];
    }
    if (state.show === "score") return [0, TOP_SCORE];
    if (state.fixed && state.show !== "std") return everyTime[0] < everyTime[1] ? everyTime : range(finite);
    return range(finite);
  }

  function update() {
    const t = state.time;
    const values = Array.from({ length: data.n }, (_, i) => valueOf(t, i));
    const [low, high] = limits(values);
    const scaleName = state.show === "error" ? "diverging" : ["std", "score"].includes(state.show) ? "cividis" : "viridis";
    values.forEach((value, i) => {
      const there = Number.isFinite(value);
      dots[i].setAttribute("fill", there ? colorAt(scaleName, (value - low) / (high - low)) : "#ffffff");
      dots[i].setAttribute("stroke", there ? "#33404a" : "#6b7780");
      dots[i].setAttribute("stroke-dasharray", there ? "none" : "3 2");
      marks[i].cross.setAttribute("visibility", state.off.has(i) ? "visible" : "hidden");
    });
    const [x, y] = points[state.station];
    halo.setAttribute("cx", x);
    halo.setAttribute("cy", y);
    const weights = model.edgeWeights();
    const largest = weights.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1;
    $("edges").setAttribute("visibility", state.edges ? "visible" : "hidden");
    lines.forEach((line, e) => {
      const share = Math.sqrt(Math.abs(weights[e]) / largest);
      line.setAttribute("stroke", weights[e] < 0 ? OKABE_ITO.orange : "#5f7480");
      line.setAttribute("stroke-width", (0.4 + 3.6 * share).toFixed(2));
      line.setAttribute("stroke-opacity", (0.15 + 0.6 * share).toFixed(2));
    });
    legend(scaleName, low, high);
    describe(state.station);
  }

  function legend(scaleName, low, high) {
    const stops = STOPS[scaleName].map((color, k, all) => `${color} ${(100 * k) / (all.length - 1)}%`).join(",");
    $("legend-bar").style.background = `linear-gradient(to right,${stops})`;
    $("legend-low").textContent = format(low);
    $("legend-high").textContent = state.show === "score" ? `${high} and more` : withUnit(high);
    $("legend-name").textContent = shownName(state.show);
  }

  function describe(i) {
    const t = state.time;
    const now = model.at(t);
    const parts = [data.names[i]];
    parts.push(state.off.has(i) ? "silent" : now.seen[i] ? `reading ${withUnit(now.y[i])}` : Number.isFinite(now.y[i]) ? "reading left out" : "no reading");
    parts.push(`estimate ${withUnit(now.x[i])} ± ${format(model.reach(t, i))}`);
    const error = now.x[i] - model.reference(t, i);
    if (Number.isFinite(error)) parts.push(`error ${withUnit(error)}`);
    $("readout").textContent = parts.join(" · ");
  }

  return { build, update, valueOf };
})();

// The truth where there is one: a simulation's field, or what was read before the page added noise.
function truthOf(t, i) {
  const place = i * data.T + t;
  if (data.truth) return data.truth[place];
  return data.bad[place] ? NaN : data.readings[place];
}
const truthName = data.truth ? "truth" : data.record ? "the record" : "as measured";
const shownName = (show) => (show === "truth" ? truthName : show === "reading" && state.snr ? "readings with noise" : SHOWS[show]);
