"use strict";
(() => {
  const root = document.documentElement, tip = document.getElementById("tip");
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.getElementById("theme").addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; });
  document.getElementById("save").addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([document.getElementById("data").textContent], { type: "application/json" }));
    link.download = document.querySelector("h1").textContent.toLowerCase().replace(/\W+/g, "-") + ".json";
    link.click();
    URL.revokeObjectURL(link.href);
  });

  // The browser's own tips come late and never on touch: take their words, show them at once.
  for (const node of document.querySelectorAll(".part[title]")) { node.dataset.tip = node.title; node.removeAttribute("title"); }
  for (const node of document.querySelectorAll("svg title")) { node.parentNode.dataset.tip = node.textContent; node.remove(); }
  const show = event => {
    const node = event.target.closest?.("[data-tip]");
    tip.hidden = !node;
    if (!node) return;
    tip.textContent = node.dataset.tip;
    const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8), above = event.clientY - tip.offsetHeight - 12;
    tip.style.left = Math.max(left, 8) + "px";
    tip.style.top = (above < 4 ? event.clientY + 18 : above) + "px";
  };
  addEventListener("pointermove", show);
  addEventListener("pointerdown", show);
  addEventListener("scroll", () => { tip.hidden = true; }, { passive: true, capture: true });
  document.addEventListener("pointerleave", () => { tip.hidden = true; });

  const key = cell => {
    if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
    const text = cell.textContent.trim().toLowerCase(), number = Number(text.replaceAll(",", ""));
    return text === "–" ? -1 : text === "" || Number.isNaN(number) ? text : number;
  };
  for (const table of document.querySelectorAll("table")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, place) => head.firstElementChild?.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") ? head.getAttribute("aria-sort") === "ascending" : head.classList.contains("num");
      heads.forEach(one => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows].map(row => [key(row.cells[place]), row]);
      rows.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1));
      table.tBodies[0].append(...rows.map(([, row]) => row));
    }));
  }
  for (const box of document.querySelectorAll(".searchable")) {
    const rows = [...box.querySelectorAll("tbody tr")], found = box.querySelector(".found");
    box.querySelector("input").addEventListener("input", event => {
      const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const text = row.cells[0].textContent.toLowerCase();
        row.hidden = !words.every(word => text.includes(word));
        shown += !row.hidden;
      }
      found.textContent = words.length ? `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")}` : "";
    });
  }
  addEventListener("beforeprint", () => { for (const one of document.querySelectorAll("details")) one.open = true; });
})();
