// Suspect stations with their evidence.
const suspectList = (() => {
  const rows = [];
  function build() {
    const list = $("suspects");
    const stations = new Set(data.suspects.map((s) => s.station)).size;
    $("suspects-title").textContent = stations === 0 ? "No station looks faulty" : stations === 1 ? "1 suspect station" : `${stations} suspect stations`;
    if (stations === 0) $("suspects-help").textContent = "Every reading agrees with its neighbors and with the readings before and after.";
    data.suspects.forEach((suspect) => {
      const row = element(element(list, "li"), "button", { type: "button", class: "suspect" });
      const head = element(row, "span", { class: "suspect-head" });
      element(head, "b", {}, data.names[suspect.station]);
      element(head, "span", { class: "tag" }, suspect.kind);
      if (suspect.score !== null) element(head, "span", { class: "score" }, `score ${suspect.score}`);
      element(row, "span", {}, suspect.evidence);
      row.addEventListener("click", () => {
        set({ station: suspect.station, time: suspect.start });
        $("series").scrollIntoView({ block: "nearest" });
      });
      rows.push(row);
    });
  }
  // Stations that no test names, but whose largest score comes next: a weak fault is among them.
  function others() {
    if (!data.scores) return;
    const named = new Set(data.suspects.map((s) => s.station));
    const best = [];
    for (let i = 0; i < data.n; i++) {
      let t = -1;
      for (let k = 0; k < data.T; k++) if (data.scores[i * data.T + k] > (t < 0 ? 0 : data.scores[i * data.T + t])) t = k;
      if (t >= 0 && !named.has(i)) best.push({ station: i, time: t, score: data.scores[i * data.T + t] });
    }
    best.sort((a, b) => b.score - a.score);
    for (const { station, time, score } of best.slice(0, 3)) {
      const row = element($("next"), "button", { type: "button" }, `${data.names[station]} ${format(score)}`);
      row.addEventListener("click", () => set({ station, time }));
    }
    $("next-box").hidden = best.length === 0;
  }

  const update = () =>
    rows.forEach((row, k) => row.setAttribute("aria-pressed", data.suspects[k].station === state.station ? "true" : "false"));
  return { build: () => { build(); others(); }, update };
})();
