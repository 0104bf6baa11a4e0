// The only module that makes elements. What comes from the bus gets into the document here, as
// text nodes, as values of fields and of data- attributes, and in no other way: there is no
// parameter by which a text could become markup, a URL, a style or a script.

import {parse, pretty} from "./json.js"

const ELEMENTS = new Set(
	(
		"article b button canvas code dd details div dl dt fieldset form h2 h3 h4 header input label legend li ol " +
		"option p pre select span summary table tbody td textarea th thead tr"
	).split(" ")
)
const ATTRIBUTES =
	/^(aria-[a-z]+|data-[a-z-]+|autocomplete|class|disabled|for|hidden|id|inputmode|maxlength|name|novalidate|placeholder|required|role|rows|scope|spellcheck|tabindex|title|type)$/
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g
const SHOWN_MAX = 64 * 1024
const COLOURED_MAX = 24 * 1024

export const $ = id => document.getElementById(id)

// An element, `td.num.wide`, with attributes if there are any, and children.
export function make(what, ...children) {
	const [name, ...classes] = what.split(".")
	if (!ELEMENTS.has(name)) throw new Error(`no element ${name} is made`)
	const element = document.createElement(name)
	element.classList.add(...classes)
	if (Object.getPrototypeOf(children[0] ?? "") === Object.prototype) set(element, children.shift())
	element.append(...children.flat(2).filter(child => child != null && child !== false))
	return element
}

// Sets attributes, or removes them for nothing and `false`; `$x` is `data-x`.
export function set(element, attributes) {
	for (const [key, value] of Object.entries(attributes)) {
		const name = key.replace("$", "data-")
		if (!ATTRIBUTES.test(name)) throw new Error(`no attribute ${name} is set`)
		if (value == null || value === false) element.removeAttribute(name)
		else {
			const text = value === true ? "" : String(value)
			if (element.getAttribute(name) !== text) element.setAttribute(name, text)
		}
	}
	return element
}

// A button that does something: `close.quiet` is its action and its class.
export function button(what, label, does, attributes = {}) {
	const [action, ...looks] = what.split(".")
	const one = make(["button", ...looks].join("."), {type: "button", $action: action, ...attributes}, label)
	if (does) one.addEventListener("click", does)
	return one
}

// Text with what is not seen made visible.
const visible = text => String(text).replace(UNSEEN, one => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`)

// A table with these columns.
export const tableOf = (look, heads, body) =>
	make(`table.${look}`, make("thead", make("tr", [heads.map(head => make("th", {scope: "col"}, head))])), body)

// A field of one line, or of more.
export const field = (what, attributes) => make(what, {type: what === "input" && "text", spellcheck: "false", autocomplete: "off", ...attributes})

// Puts a text of the bus into an element, if it is another than now.
export function say(element, text) {
	const shown = visible(text)
	if (element.textContent !== shown) element.textContent = shown
	return element
}

// The same, in an element that is there only where there is something to say.
export const maybe = (element, text) => say(set(element, {hidden: !text}), text || "")

export const told = (what, ...rest) => say(make(what, ...rest.slice(0, -1)), rest.at(-1))

export function json(raw, attributes = {}) {
	try {
		return block(pretty(parse(raw)), attributes)
	} catch {
		return block([["", raw]], attributes)
	}
}

// What a tool answered: a text as itself, all else as JSON.
export function answer(raw, attributes = {}) {
	const node = raw[0] === '"' && parse(raw)
	return node ? block([["", node.value]], attributes) : json(raw, attributes)
}

// A block with a long text of the bus, the rest of it behind a button.
function block(pieces, attributes) {
	const pre = make("pre.block", {tabindex: 0, ...attributes})
	const text = pieces.map(piece => piece[1]).join("")
	if (text.length <= COLOURED_MAX) {
		pre.append(...pieces.map(([kind, piece]) => (kind ? told(`span.j-${kind}`, piece) : visible(piece))))
		pre.normalize()
		return pre
	}
	pre.append(visible(text.slice(0, SHOWN_MAX)))
	if (SHOWN_MAX < text.length) {
		const rest = button("rest.rest", `Show the rest (${(text.length - SHOWN_MAX).toLocaleString("en")} characters)`, () => {
			rest.replaceWith(visible(text.slice(SHOWN_MAX)))
			pre.focus()
		})
		pre.append(rest)
	}
	return pre
}

// Makes the children of an element just these, moving none that stands where it should.
export function arrange(parent, children) {
	let at = parent.firstChild
	for (const child of children) {
		if (child === at) at = at.nextSibling
		else parent.insertBefore(child, at)
	}
	while (at) {
		const next = at.nextSibling
		at.remove()
		at = next
	}
}

export const empty = (title, more) => make("div", {$empty: true}, told("p.empty-title", title), more && told("p", more))

export const failed = text => told("p.notice", {$error: true, role: "alert"}, text)

export const announce = text => say($("said"), text)

// Gives bytes to the user as a file, whatever they are.
export function download(bytes, name) {
	const address = URL.createObjectURL(new Blob([bytes], {type: "application/octet-stream"}))
	const link = document.createElement("a")
	link.setAttribute("href", address)
	link.setAttribute("download", name)
	link.click()
	setTimeout(() => URL.revokeObjectURL(address), 60_000)
}
