// Light or dark: the system's preference, until the reader makes a choice, which is kept. The
// script runs before the page is drawn, so that the page does not flash.
const root = document.documentElement;
const theme = {
  key: "duality-theme",
  // Storage may be forbidden. Then the choice lasts as long as the page.
  load() { try { return localStorage.getItem(this.key); } catch { return null; } },
  save(name) { try { localStorage.setItem(this.key, name); } catch { /* nothing is lost but the memory of it */ } },
  system: matchMedia("(prefers-color-scheme: dark)"),
  get isDark() { return (root.dataset.theme ?? (this.system.matches ? "dark" : "light")) === "dark"; },
};
if (["light", "dark"].includes(theme.load())) root.dataset.theme = theme.load();
addEventListener("DOMContentLoaded", () => {
  const button = document.getElementById("theme");
  const tell = () => {
    button.textContent = theme.isDark ? "Light" : "Dark";
    button.setAttribute("aria-label", `Show this page ${theme.isDark ? "light" : "dark"}`);
    dispatchEvent(new Event("theme"));
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = theme.isDark ? "light" : "dark";
    theme.save(root.dataset.theme);
    tell();
  });
  theme.system.addEventListener("change", tell);
  tell();
});
