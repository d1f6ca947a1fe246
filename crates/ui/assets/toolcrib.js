// The one script of our own: signing in by the code of `toolcrib ui`, copying, sending forms, and saying that
// the connection is lost. Pages work without it.
"use strict";

// The code stands in the fragment, which no server and no log sees.
const form = document.getElementById("code-form");
if (form && location.hash.startsWith("#code=")) {
  form.elements.code.value = location.hash.slice(6);
  history.replaceState(null, "", location.pathname + location.search);
  form.submit();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  navigator.clipboard.writeText(source.textContent).then(() => {
    button.textContent = "Copied";
  });
});

// A live part that is not connected says so; what happened meanwhile is shown when it is back.
document.addEventListener("htmx:sse:error", () => document.body.classList.add("lost"));
document.addEventListener("htmx:sse:after:connection", () => document.body.classList.remove("lost"));

// A select that filters acts at once; without a script its form has a button.
document.addEventListener("change", (event) => {
  const select = event.target.closest("select[data-submit]");
  if (select) select.form.requestSubmit();
});

// Picking an alternative shows its fields at once; without a script the button beside it does.
document.addEventListener("change", (event) => {
  const select = event.target.closest("select[data-press]");
  if (select) select.form.requestSubmit(document.getElementById(select.dataset.press));
});

// In a text of several lines Enter begins a line; with Ctrl it sends the form.
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "Enter" && event.target.matches("textarea")) {
    event.target.form?.requestSubmit();
  }
});
