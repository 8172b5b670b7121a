// Build the page, then draw it again after every change.
const summary = (() => {
  const card = (box, value, text) => {
    const item = element(box, "li");
    element(item, "b", {}, value);
    element(item, "span", {}, text);
  };
  const root = (sum, count) => (count ? Math.sqrt(sum / count) : NaN);
  return (sums) => {
    const box = $("scores");
    clear(box);
    const what = data.truth ? "truth" : data.record ? "record" : "measured readings";
    const when = data.learned.every(Boolean) ? "all times" : "times that no weight was learned from";
    if (sums.count && (data.truth || state.snr || state.missing || state.off.size)) {
      if (data.truth || state.snr) card(box, withUnit(root(sums.reading, sums.read)), `RMSE of the readings against the ${what}, ${when}`);
      card(box, withUnit(root(sums.estimate, sums.count)), `RMSE of the estimate (${METHODS[state.method]}) against the ${what}, ${when}${data.truth || state.snr ? "" : ", at readings that were hidden"}`);
      if (sums.checked) card(box, `${Math.round((100 * sums.inside) / sums.checked)} %`, `of ${sums.checked} values at ${data.names[state.station]} lie in the band of 90 %`);
    } else {
      const [best] = data.cleaned.errors;
      if (best) card(box, withUnit(Number(best[1])), `RMSE at readings that Python hid, ${best[0]}`);
      card(box, "–", "No truth here: hide readings or add noise to see errors");
    }
  };
})();

let frame = 0;
function redraw() {
  if (frame) return;
  frame = requestAnimationFrame(() => {
    frame = 0;
    ready = false;
    controls.update();
    map.update();
    suspectList.update();
    adviser.update();
    chart.update((sums) => {
      summary(sums);
      ready = true;
    });
  });
}
let ready = false;

$("headline").textContent = data.cleaned.headline[0].toUpperCase() + data.cleaned.headline.slice(1) + ".";
$("source").textContent = data.source;
for (const note of data.cleaned.notes) element($("notes"), "li", {}, note);
$("notes-box").hidden = data.cleaned.notes.length === 0;
map.build();
suspectList.build();
controls.build();
onChange(redraw);
set(parseLink(location.hash.slice(1)));
addEventListener("resize", redraw);
addEventListener("hashchange", () => set(parseLink(location.hash.slice(1))));

// For scripts that drive the page.
globalThis.explorer = { data, state, set, at: model.at, band: model.band, others: model.others, isReady: () => ready && !frame };
