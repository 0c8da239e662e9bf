"use strict";
// What scrolls can be reached with the keyboard, and what is a landmark has a name of its own.
const name = () => {
  for (const box of document.querySelectorAll("pre > code, .md-typeset__scrollwrap")) if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  document.querySelectorAll(".md-code__nav").forEach((nav, index) => nav.setAttribute("aria-label", `Code ${index + 1}`));
};
const nested = () => document.querySelectorAll(".md-nav .md-nav[aria-labelledby]").forEach(nav => {
  nav.setAttribute("aria-label", `Pages: ${nav.querySelector(":scope > .md-nav__title").textContent.trim()}`);
  nav.removeAttribute("aria-labelledby");
});
const search = () => document.querySelector(".md-search[role=dialog]")?.setAttribute("aria-label", "Search");
addEventListener("load", () => { search(); name(); nested(); new MutationObserver(name).observe(document.body, { childList: true, subtree: true }); });
addEventListener("resize", name);
