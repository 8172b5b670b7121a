// Three questions that end in code.
const adviser = (() => {
  function update() {
    const box = $("questions");
    const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.answer : null;
    clear(box);
    let name = "time";
    for (let depth = 0; depth < 3 && name in data.questions; depth++) {
      const question = data.questions[name];
      const field = element(box, "fieldset");
      element(field, "legend", {}, `${depth + 1}. ${question.text}`);
      const chosen = state.answers[depth];
      question.answers.forEach(([text], k) => {
        const button = element(field, "button", { type: "button", "aria-pressed": chosen === k ? "true" : "false", "data-answer": `${depth}.${k}` }, text);
        button.addEventListener("click", () => set({ answers: [...state.answers.slice(0, depth), k] }));
        if (focused === `${depth}.${k}`) button.focus();
      });
      if (chosen === undefined || !question.answers[chosen]) {
        name = null;
        break;
      }
      name = question.answers[chosen][1];
    }
    const advice = data.advice[name];
    $("advice").hidden = !advice;
    if (!advice) return;
    $("advice-title").textContent = advice.title;
    $("advice-why").textContent = advice.why;
    $("advice-code").textContent = advice.code;
  }
  return { update };
})();
