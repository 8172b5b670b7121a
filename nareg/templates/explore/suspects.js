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
  const update = () =>
    rows.forEach((row, k) => row.setAttribute("aria-pressed", data.suspects[k].station === state.station ? "true" : "false"));
  return { build, update };
})();
