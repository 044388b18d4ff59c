// The colour theme, before anything is drawn: what the person chose, else what the system says.
(() => {
  const KEY = "brimline-theme";
  const NAMES = ["auto", "light", "dark"];
  const stored = () => {
    try { return NAMES.includes(localStorage.getItem(KEY)) ? localStorage.getItem(KEY) : "auto"; } catch { return "auto"; }
  };
  const apply = (name) => {
    if (name === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    document.dispatchEvent(new CustomEvent("theme-changed"));
  };
  apply(stored());
  document.addEventListener("DOMContentLoaded", () => {
    for (const button of document.querySelectorAll("[data-theme-toggle]")) {
      const say = (name) => { button.title = `${button.getAttribute("aria-label").split(":")[0]}: ${name}`; button.setAttribute("aria-label", button.title); };
      say(stored());
      button.addEventListener("click", () => {
        const name = NAMES[(NAMES.indexOf(stored()) + 1) % NAMES.length];
        try { localStorage.setItem(KEY, name); } catch { /* private mode: the choice lasts for this page */ }
        apply(name);
        say(name);
      });
    }
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new CustomEvent("theme-changed")));
  });
})();
