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
document.addEventListener("htmx:sse:error", (event) => {
  // The gateway answers and knows this session no longer.
  const ended = event.detail?.status === 401;
  document.body.classList.toggle("ended", ended);
  document.body.classList.toggle("lost", !ended);
});
document.addEventListener("htmx:sse:after:connection", () => document.body.classList.remove("lost", "ended"));

// A live part that changes may take away what has the focus: then what stood before it has it, so that the next key goes
// on there.
const FOCUSABLE = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]";
let before = [];
document.addEventListener("htmx:before:swap", () => {
  const focused = document.activeElement;
  const all = focused === document.body ? [] : [...document.querySelectorAll(FOCUSABLE)];
  before = all.slice(0, all.indexOf(focused) + 1);
});
document.addEventListener("htmx:after:swap", () => {
  if (document.activeElement !== document.body) return;
  before.findLast((it) => it.isConnected && !it.disabled)?.focus({ preventScroll: true });
  if (before.length && document.activeElement === document.body) document.getElementById("main").focus();
});

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

// What is wrong in a text leads to its line; without a script the lines stand beside it.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-line]");
  const text = link && document.getElementById("text");
  if (!text) return;
  event.preventDefault();
  const lines = text.value.split("\n");
  const line = Math.min(link.dataset.line, lines.length) - 1;
  const start = lines.slice(0, line).reduce((sum, it) => sum + it.length + 1, 0);
  text.focus();
  text.setSelectionRange(start + Math.max(link.dataset.column - 1, 0), start + lines[line].length);
  text.scrollTop = (text.scrollHeight / lines.length) * Math.max(line - 4, 0);
});
// A file is read into the field that it is for; without a script its text is pasted there.
for (const input of document.querySelectorAll("input[data-into]")) {
  input.closest("label").hidden = false;
  input.addEventListener("change", async () => {
    if (input.files[0]) document.getElementById(input.dataset.into).value = await input.files[0].text();
  });
}

// One box chooses all rows of a page.
for (const box of document.querySelectorAll("input[data-all]")) {
  box.closest("label").hidden = false;
  box.addEventListener("change", () => {
    for (const one of document.querySelectorAll(`input[type="checkbox"][form="${box.dataset.all}"]`)) one.checked = box.checked;
  });
}

// In a text of several lines Enter begins a line; with Ctrl it sends the form.
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "Enter" && event.target.matches("textarea")) {
    event.target.form?.requestSubmit();
  }
});

// Ctrl+K finds pages, servers, tools and actions from everywhere; without a script the link leads to a page that does.
const finder = document.querySelector("a[data-find]");
if (finder) {
  const make = (name, attributes) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const dialog = make("dialog", { class: "palette", "aria-label": "Find" });
  const input = make("input", {
    type: "text", role: "combobox", "aria-label": "Pages, servers, tools, actions", "aria-expanded": "true",
    "aria-controls": "palette-hits", "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false",
    placeholder: "Pages, servers, tools, actions",
  });
  const list = make("ul", { id: "palette-hits", role: "listbox", "aria-label": "Found" });
  const status = make("p", { class: "quiet small", role: "status" });
  dialog.append(input, list, status);
  document.body.append(dialog);
  let wanted = 0;
  let timer = null;

  const choose = (option) => {
    list.querySelector("[aria-selected=true]")?.setAttribute("aria-selected", "false");
    if (!option) return input.removeAttribute("aria-activedescendant");
    option.setAttribute("aria-selected", "true");
    input.setAttribute("aria-activedescendant", option.id);
    option.scrollIntoView({ block: "nearest" });
  };
  const chosen = () => list.querySelector("[aria-selected=true]");
  const show = async () => {
    clearTimeout(timer);
    timer = null;
    const number = ++wanted;
    const response = await fetch("/ui/find?q=" + encodeURIComponent(input.value)).catch(() => null);
    const text = response && response.ok ? await response.text() : "";
    // An older answer must not replace a newer one.
    if (number !== wanted) return;
    const found = new DOMParser().parseFromString(text, "text/html");
    const hits = [...found.querySelectorAll("#hits > li")].map((hit, index) => {
      const option = make("li", { role: "option", id: "hit-" + index, "aria-selected": "false" });
      option.dataset.path = hit.querySelector("a").getAttribute("href");
      option.textContent = "";
      const [name, ...rest] = hit.children;
      const label = make("span", { class: "id" });
      label.textContent = name.textContent;
      option.append(label, " ");
      for (const part of rest) option.append(document.importNode(part, true), " ");
      return option;
    });
    list.replaceChildren(...hits);
    status.textContent = !text ? "The gateway does not answer." : hits.length ? "" : "Nothing matches.";
    choose(hits[0]);
  };
  const open = () => {
    if (dialog.open) return;
    input.value = "";
    list.replaceChildren();
    dialog.showModal();
    show();
  };
  const go = (option) => {
    if (option) location.assign(option.dataset.path);
  };

  finder.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    open();
  });
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      open();
    }
  });
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(show, 120);
  });
  input.addEventListener("keydown", (event) => {
    const options = [...list.children];
    const at = options.indexOf(chosen());
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && options.length) {
      event.preventDefault();
      choose(options[(at + step + options.length) % options.length]);
    } else if (event.key === "Enter") {
      event.preventDefault();
      // What was typed just now counts.
      if (timer === null) go(chosen());
      else show().then(() => go(chosen()));
    }
  });
  list.addEventListener("click", (event) => go(event.target.closest("[role=option]")));
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
}
