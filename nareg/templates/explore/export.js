// Files that the page makes: PNG of a drawing, CSV of what is shown.
const exporter = (() => {
  function save(blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  const SCALE = 2;
  function png(svg, name) {
    const copy = svg.cloneNode(true);
    const { width, height } = svg.viewBox.baseVal;
    copy.setAttribute("xmlns", NAMESPACE);
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    copy.setAttribute("font-family", "system-ui, sans-serif");
    const address = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" }));
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = SCALE * width;
      canvas.height = SCALE * height;
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      URL.revokeObjectURL(address);
      canvas.toBlob((blob) => save(blob, name), "image/png");
    };
    image.src = address;
  }

  // A cell as RFC 4180 asks; a name that a spreadsheet would take for a formula starts with an apostrophe.
  function cell(value) {
    if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
    const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  function csv(places, name) {
    const lines = ["time,station,reading,estimate,low,high,truth,error"];
    for (const [t, i] of places) {
      const now = model.at(t);
      const [low, high] = model.band(t, i);
      const known = data.truth || state.snr ? truthOf(t, i) : NaN;
      const row = [data.times[t], data.names[i], now.seen[i] ? now.y[i] : NaN, now.x[i], low, high, known, now.x[i] - model.reference(t, i)];
      lines.push(row.map(cell).join(","));
    }
    save(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }), name);
  }

  const series = () => csv(Array.from({ length: data.T }, (_, t) => [t, state.station]), "station.csv");
  const snapshot = () => csv(Array.from({ length: data.n }, (_, i) => [state.time, i]), "map.csv");
  return { png, series, snapshot };
})();
