// The tools: a search, the list by back, and the chosen one with its schema and its form. Of the
// list only what is seen and a little around it is in the document.

import {Fields} from "./forms.js"
import {member, parse, plain, say as says} from "./json.js"
import {common, keysOf} from "./keys.js"
import {get, linkState} from "./link.js"
import {count, some} from "./numbers.js"
import {go, place} from "./place.js"
import {Run} from "./run.js"
import {onStore, store} from "./store.js"
import {$, arrange, button, empty, failed, field, json, make, maybe, say, set, told} from "./text.js"

const HIGH = 52
const PAGE = 100
const AROUND = 12
const MOST = 200

const ui = {}
let schedule
let list = {tools: new Map(), pages: new Set()}
let asked
let chosen = ""
let reading
let pending = {}
let run
let call
let pointedAt = -1
let wantsFocus = false

// Arguments that the form of a tool begins with when it is opened next.
export function fillForm(name, args) {
	pending = {name, args}
	repaint()
}

export function repaint() {
	chosen = reading = null
}

export function start(later) {
	schedule = later
	ui.search = field("input", {$search: true, "aria-label": "Search tools", placeholder: "Search tools …"})
	ui.number = make("span.note", {$number: "tools"})
	ui.only = make("div.only", {hidden: true})
	ui.high = make("div.high")
	ui.scroll = make("div.tool-list", ui.high)
	ui.empty = make("div")
	$("tools-list").append(make("div.search", ui.search, ui.number), ui.only, ui.scroll, ui.empty)
	ui.search.addEventListener("input", () => go({search: ui.search.value}))
	ui.search.addEventListener("keydown", event => {
		if (event.key !== "ArrowDown") return
		event.preventDefault()
		step(1)
	})
	ui.scroll.addEventListener("scroll", schedule, {passive: true})
	new ResizeObserver(schedule).observe(ui.scroll)
	ui.high.addEventListener("click", event => {
		const row = event.target.closest("[data-tool]")
		if (!row) return
		wantsFocus = true
		go({tool: row.dataset.tool})
	})
	onStore(what => {
		if (what === "snapshot") asked = null
	})
	keysOf("tools", common({next: () => step(1), previous: () => step(-1), close, call: () => call?.()}))
}

export function arrive(at) {
	if (document.activeElement !== ui.search && ui.search.value !== at.search) ui.search.value = at.search
}

export function show() {
	if (!store.state) return
	const {search, back, tool} = place()
	const {digest} = store.state.tools
	const key = JSON.stringify([search, back, digest])
	if (asked !== key && linkState() === "live") first(key, search, back)
	if (ui.only.dataset.value !== back) {
		arrange(set(ui.only, {hidden: !back, $value: back}), [told("span", `Only of ${back}`), button("all-backs.quiet", "All backs", () => go({back: ""}))])
	}
	showList()
	if (!tool) {
		if (chosen !== "") nobody()
	} else if ((chosen !== tool || reading !== tool + digest) && linkState() === "live" && reading !== tool + digest) read(tool, tool + digest)
}

async function first(key, search, back) {
	asked = key
	let found
	try {
		found = JSON.parse(await get("/api/tools", {search, back, limit: PAGE}))
	} catch (error) {
		found = {total: 0, matched: 0, tools: [], wrong: error.message}
	}
	if (asked !== key) return
	if (list.search !== search || list.back !== back) ui.scroll.scrollTop = 0
	list = {...found, search, back, tools: new Map(found.tools.entries()), pages: new Set([0])}
	pointedAt = -1
	schedule()
}

async function more(from) {
	const mine = list
	if (mine.pages.has(from)) return
	mine.pages.add(from)
	try {
		const found = JSON.parse(await get("/api/tools", {search: mine.search, back: mine.back, from, limit: PAGE}))
		found.tools.forEach((tool, at) => mine.tools.set(from + at, tool))
	} catch {
		mine.pages.delete(from)
	}
	schedule()
}

function showList() {
	const {matched, total, wrong} = list
	if (matched == null) return
	say(set(ui.number, {$value: matched}), matched === total ? some(total, "tool") : `${count(matched)} of ${some(total, "tool")}`)
	set(ui.scroll, {hidden: !matched})
	const why = wrong ? ["The tools cannot be listed", wrong] : total ? ["No tool is found", "Fewer or other words may find one."] : ["No tools", "No back has told any tool yet."]
	arrange(ui.empty, matched ? [] : [empty(...why)])
	ui.high.style.setProperty("--lines", matched)
	const begin = Math.max(0, Math.floor(ui.scroll.scrollTop / HIGH) - AROUND)
	const end = Math.min(matched, begin + MOST, Math.ceil((ui.scroll.scrollTop + ui.scroll.clientHeight) / HIGH) + AROUND)
	const children = []
	for (let at = begin; at < end; at += 1) {
		const tool = list.tools.get(at)
		if (!tool) more(Math.floor(at / PAGE) * PAGE)
		else children.push(rowOf(at, tool))
	}
	arrange(ui.high, children)
}

function rowOf(at, tool) {
	const {name, back, title = "", description = "", state} = tool
	// Where the tools of a back begin, its name stands beside.
	const isFirst = !list.search && list.tools.get(at - 1)?.back !== back
	if (!tool.row) {
		const own = name.startsWith(`${back}.`) ? name.slice(back.length + 1) : name
		const about = `${title && title !== own ? `${title}. ` : ""}${description.replace(/\s+/g, " ")}`
		const names = make("span.tool-name", told("span", name.slice(0, -own.length)), told("b", own), state && told("span.badge.is-late", state))
		tool.row = make("button.line", {type: "button", $tool: name, $index: at}, names, told("span.tool-about", about), isFirst && told("span.tool-back", back))
		tool.row.style.setProperty("--line", at)
	}
	return set(tool.row, {"aria-current": name === place().tool && "true"})
}

// The next or previous tool gets the focus; the first one at first.
function step(by) {
	if (!list.matched) return
	const here = document.activeElement?.closest("[data-tool]")
	const at = here ? Number(here.dataset.index) : pointedAt
	pointedAt = at < 0 ? 0 : Math.max(0, Math.min(list.matched - 1, at + by))
	const {scrollTop, clientHeight} = ui.scroll
	ui.scroll.scrollTop = Math.max((pointedAt + 1) * HIGH - clientHeight, Math.min(scrollTop, pointedAt * HIGH))
	showList()
	ui.high.querySelector(`[data-index="${pointedAt}"]`)?.focus({preventScroll: true})
}

function close() {
	const name = place().tool
	go({tool: ""})
	showList()
	if (name) ui.high.querySelector(`[data-tool="${CSS.escape(name)}"]`)?.focus()
}

// Another tool, or none, takes the place of the one that is shown.
function put(name, children) {
	chosen = name
	run?.cancel()
	run = call = null
	set($("tools-list").parentElement, {$chosen: Boolean(name)})
	arrange($("tool"), [name && button("close.quiet.back", "‹ All tools", close), ...children].filter(Boolean))
}

function nobody() {
	reading = null
	put("", [make("div.hint", make("p.empty-title", "Choose a tool"), make("p", "Its description, its schema and a way to try it are shown here."))])
}

async function read(name, key) {
	reading = key
	try {
		const node = parse(await get("/api/tool", {name}))
		// The one that is shown stays as it is while somebody works with it.
		if (reading === key && !(chosen === name && $("tool").contains(document.activeElement))) fill(name, node)
	} catch (error) {
		if (reading === key) put(name, [failed(error.status === 404 ? `There is no tool ${name}.` : error.message)])
	}
	schedule()
}

function fill(name, node) {
	const text = key => says(node, key)
	const hints = plain(member(node, "hints")) ?? {}
	const state = text("state")
	const heading = told("h3.mono", {tabindex: -1}, name)
	const badges = [
		told("span.badge", text("wire")),
		hints.read_only && make("span.badge", "read-only"),
		hints.idempotent && make("span.badge", "idempotent"),
		hints.destructive && make("span.badge.is-failed", "destructive"),
		state && told("span.badge.is-late", state === "changed" ? "▲ changed" : state)
	]
	const input = member(node, "input") ?? parse("{}")
	const output = member(node, "output")
	put(name, [])
	const article = make(
		"article.chosen",
		make("header", heading, make("p.badges", badges)),
		text("title") && told("p", text("title")),
		told("p.peer-address", text("address")),
		maybe(make("p.description"), text("description")),
		document.documentElement.dataset.page === "call" && form(name, input),
		make("div", {$schema: true}, make("h4", "Input"), json(input.raw), output && [make("h4", "Output"), json(output.raw)])
	)
	$("tool").append(article)
	if (wantsFocus || pending.name === name) heading.focus({preventScroll: true})
	wantsFocus = false
	pending = {}
}

function form(name, input) {
	const fields = new Fields(input, pending.name === name ? pending.args : null)
	const calls = button("call.primary", "Call", null, {type: "submit"})
	const cancel = button("cancel", "Cancel", () => run?.cancel())
	const element = make("form", {$form: name, novalidate: true, "aria-label": `Call ${name}`}, fields.element, make("div.actions", calls, fields.toggle))
	const output = make("div")
	call = () => {
		const given = !calls.disabled && fields.read()
		if (!given) return true
		calls.disabled = true
		calls.after(cancel)
		run = new Run(name, given.json, () => {
			const hadFocus = document.activeElement === cancel
			calls.disabled = false
			cancel.remove()
			if (hadFocus) calls.focus()
		})
		arrange(output, [run.element])
		return true
	}
	element.addEventListener("submit", event => {
		event.preventDefault()
		call()
	})
	return [element, output]
}
