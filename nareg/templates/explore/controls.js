// Everything that can be moved, by pointer or by key.
const controls = (() => {
  let timer = 0;

  const clampTime = (t) => Math.min(Math.max(t, 0), data.T - 1);
  const silence = (i) => {
    const off = new Set(state.off);
    if (!off.delete(i)) off.add(i);
    set({ off });
  };
  const step = (by) => set({ station: (state.station + by + data.n) % data.n });
  function play() {
    if (timer) {
      clearInterval(timer);
      timer = 0;
    } else {
      timer = setInterval(() => set({ time: (state.time + 1) % data.T }), 250);
    }
    $("play").textContent = timer ? "Pause" : "Play";
  }
  const nextMethod = () => {
    const names = Object.keys(METHODS).filter((name) => name !== "cleaned" || !$("method").options[0].disabled);
    set({ method: names[(names.indexOf(state.method) + 1) % names.length] });
  };
  async function copy(text, button) {
    const label = button.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select and copy by hand";
    }
    setTimeout(() => (button.textContent = label), 1500);
  }

  const KEYS = {
    ArrowLeft: () => set({ time: clampTime(state.time - 1) }), ArrowRight: () => set({ time: clampTime(state.time + 1) }),
    n: () => step(1), p: () => step(-1), x: () => silence(state.station), m: nextMethod, " ": play,
    e: () => set({ edges: !state.edges }),
    f: () => {
      if (!data.suspects.length) return;
      const places = data.suspects.map((s) => s.station);
      const next = data.suspects[(places.indexOf(state.station) + 1) % places.length];
      set({ station: next.station, time: next.start });
    },
    "?": () => ($("keys").open = !$("keys").open),
  };

  function build() {
    for (const [name, text] of Object.entries(METHODS)) element($("method"), "option", { value: name }, text);
    for (const name of Object.keys(SHOWS)) element($("show"), "option", { value: name });
    data.names.forEach((name, i) => element($("station"), "option", { value: i }, name));
    for (const size of WINDOWS) if (size < data.T) element($("window"), "option", { value: size }, size ? `${size} times` : "all times");
    $("time").max = data.T - 1;
    $("snr").max = data.snrs.length - 1;
    const on = (id, event, action) => $(id).addEventListener(event, action);
    on("time", "input", () => set({ time: Number($("time").value) }));
    on("snr", "input", () => set({ snr: Number($("snr").value) }));
    on("missing", "input", () => set({ missing: Number($("missing").value) }));
    on("method", "change", () => {
      // what the space-time model was computed for: the readings as they are
      if ($("method").value === "cleaned") Object.assign(state, { snr: 0, missing: 0, off: new Set(), keepBad: false });
      set({ method: $("method").value });
    });
    on("show", "change", () => set({ show: $("show").value }));
    on("station", "change", () => set({ station: Number($("station").value) }));
    on("window", "change", () => set({ window: Number($("window").value) }));
    for (const name of Object.keys(FLAGS)) on(`box-${name}`, "change", () => set({ [name]: $(`box-${name}`).checked }));
    on("back", "click", KEYS.ArrowLeft);
    on("forward", "click", KEYS.ArrowRight);
    on("play", "click", play);
    on("silence", "click", () => silence(state.station));
    on("reset", "click", () => set({ method: "cleaned", snr: 0, missing: 0, off: new Set(), keepBad: false }));
    on("copy-link", "click", () => copy(location.href, $("copy-link")));
    on("copy-code", "click", () => copy($("advice-code").textContent, $("copy-code")));
    on("map-png", "click", () => exporter.png($("map"), "map.png"));
    on("chart-png", "click", () => exporter.png($("chart"), "station.png"));
    on("map-csv", "click", exporter.snapshot);
    on("chart-csv", "click", exporter.series);
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const target = event.target;
      const moved = target.matches("select, input[type=range]");
      const pressed = target.matches("select, button, summary, input[type=checkbox]");
      if ((moved && event.key.startsWith("Arrow")) || (pressed && event.key === " ")) return; // these keys belong to the control
      const action = KEYS[event.key];
      if (action) {
        event.preventDefault();
        action();
      }
    });
  }

  function update() {
    const level = data.snrs[state.snr];
    $("time").value = state.time;
    $("time").setAttribute("aria-valuetext", timeLabels[state.time]);
    $("now").textContent = timeLabels[state.time];
    $("method").value = state.method;
    $("show").value = state.show;
    for (const option of $("show").options) option.textContent = shownName(option.value);
    $("station").value = state.station;
    $("window").value = state.window;
    $("snr").value = state.snr;
    $("snr-value").textContent = level === null ? "none" : `${level} dB`;
    $("snr").setAttribute("aria-valuetext", $("snr-value").textContent);
    $("missing").value = state.missing;
    $("missing-value").textContent = `${state.missing} %`;
    for (const name of Object.keys(FLAGS)) $(`box-${name}`).checked = state[name];
    $("silence").textContent = state.off.has(state.station) ? "Let it read again" : "Silence this station";
    $("silence").setAttribute("aria-pressed", state.off.has(state.station) ? "true" : "false");
    $("key-others").hidden = !state.others;
    $("key-truth").hidden = !data.truth && !state.snr;
    $("key-truth-name").textContent = data.truth ? "truth" : "what was read before noise was added";
    const names = [...state.off].map((i) => data.names[i]);
    $("silent").textContent = names.length ? `Silent: ${names.join(", ")}.` : "";
    $("where").textContent = state.method === "cleaned"
      ? "Computed in Python, for the readings as they are. Any change below switches to edge weights, which this page computes."
      : "Computed in this page. The weights come from Python, which learned them from every other tenth of the times.";
    const now = model.at(state.time);
    const alone = now.alone ? now.alone.reduce((sum, a) => sum + a, 0) : 0;
    $("note").textContent = [now.replaced, alone ? `${alone} stations have no reading within reach: they show their mean.` : ""].filter(Boolean).join(" ");
  }

  return { build, update };
})();
