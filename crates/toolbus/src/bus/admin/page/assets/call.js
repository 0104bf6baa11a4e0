// One call with all that is kept of it, read again while it runs; and what can be copied of it.

import {get, isWatching} from "./link.js"
import {compact, member, numberOf, parse, plain, quote, say as says} from "./json.js"
import {bytes, count, duration, marked, nameOf, time, tone, words} from "./numbers.js"
import {address, go} from "./place.js"
import {store} from "./store.js"
import {answer, arrange, button, empty, json, make, maybe, set, told} from "./text.js"
import {fillForm} from "./tools.js"

const AGAIN = 500
const HIDDEN = {
	kept: "",
	hidden: "Values are hidden: [admin] page_values = false in the config.",
	not_kept:
		"Values were not kept: [journal] arguments = true and results = true keep them for all calls, Watch values for those that begin from then on."
}

let root
let close
let schedule
let n = 0
// The call as it was read, and the record that the stream told then.
let shown
let record
let readAt = 0
let reading = false
let wantsFocus = false
let copied = ""

export function start(element, later, onClose) {
	;[root, schedule, close] = [element, later, onClose]
}

export function open(number) {
	if (n === number) return
	n = number
	shown = record = null
	readAt = 0
	copied = ""
	set(root, {class: n ? "detail" : ""})
	arrange(root, n ? [frame(make("p.note", "Reading …"))] : [])
}

// Its heading gets the focus, also when it has been read.
export function focus() {
	wantsFocus = true
	root.querySelector("h3")?.focus()
}

// Reads it when it is new or has changed, not more than twice a second.
export function show(isFrozen) {
	const news = store.calls.get(n)
	if (!n || reading || (shown && (isFrozen || (shown.outcome !== "running" && (!news || news === record))))) return
	const wait = readAt + AGAIN - performance.now()
	if (shown && 0 < wait) setTimeout(schedule, wait)
	else read(news)
}

async function read(news) {
	const mine = n
	reading = true
	readAt = performance.now()
	try {
		const node = parse(await get(`/api/calls/${mine}`))
		if (n === mine) fill(node, plain(node))
	} catch (error) {
		if (n === mine) {
			shown = {outcome: ""}
			arrange(root, [frame(empty(error.message, error.status === 404 && "The bus keeps the last calls alone; the journal may have it."))])
		}
	}
	if (n === mine) record = news
	reading = false
	schedule()
}

function frame(...children) {
	const closes = button("close.quiet", "Close", close, {title: "Close (Esc)"})
	return make("article", {$detail: n, "aria-label": `Call ${n}`}, make("header", make("h3", {tabindex: -1}, `Call ${n}`), closes), children)
}

function fill(node, call) {
	shown = call
	const scrolled = root.scrollTop
	const active = root.contains(document.activeElement) && document.activeElement
	const line = (label, part, text, more) => (text == null ? [] : [make("dt", label), told("dd", {$part: part, ...more}, text)])
	const facts = make(
		"dl.facts",
		line("Began", "began", time(call.began), {title: call.began}),
		line("Front", "front", call.front),
		line("Caller", "caller", call.caller),
		line("View", "view", call.view),
		line("Wire", "wire", call.wire),
		line("Reason", "reason", call.reason && words(call.reason)),
		line("Bytes", "bytes", `${bytes(call.bytes.in)} in, ${bytes(call.bytes.out)} out`),
		line("Trace", "trace", call.trace, {class: "mono"})
	)
	const headline = make(
		"p.headline",
		told(`span.outcome.is-${tone(call.outcome)}`, {$part: "outcome", $value: call.outcome}, marked(call.outcome)),
		told("span.mono", {$part: "tool"}, nameOf(call)),
		told("span.num", {$part: "duration", $value: call.duration}, call.duration == null ? "runs" : duration(call.duration))
	)
	const keeps = isWatching() && call.values === "not_kept" ? "Values were not kept when this call began, or gave way to newer ones." : HIDDEN[call.values]
	const values = maybe(make("p.notice", {$part: "values", $value: call.values}), keeps)
	const article = frame(headline, facts, actions(node), maybe(make("p", {$copied: true, role: "status"}), copied), values)
	set(article, {$outcome: call.outcome})
	const section = (title, key, show) => member(node, key) && article.append(make("h4", title), show(member(node, key)))
	section("Arguments", "arguments", given => json(given.raw, {$part: "arguments"}))
	section("Failure", "failure", failureBlock)
	section("Answer", "result", result => answer(result.raw, {$part: "answer"}))
	section("Events", "events", list => {
		const left = call.events_left_out && make("li.note", `${count(call.events_left_out)} more are not kept`)
		return make(
			"ol.events",
			{$part: "events"},
			list.items.map(one => eventRow(says(one, "kind"), one)),
			left
		)
	})
	arrange(root, [article])
	root.scrollTop = scrolled
	if (!wantsFocus && !active) return
	const again = active?.dataset?.action
	;(article.querySelector(again ? `[data-action="${CSS.escape(again)}"]` : "h3") ?? article.querySelector("h3")).focus({preventScroll: true})
	wantsFocus = false
}

// What is told of a failure: its kind always, the rest where values are told.
export function failureBlock(node) {
	const kind = says(node, "kind") ?? ""
	const [message, code, detail] = [says(node, "message"), member(node, "code"), member(node, "detail")]
	return make(
		`div.failure.is-${tone(kind)}`,
		{$part: "failure"},
		told("p.failure-kind", `${marked(kind)}${code ? ` (${says(node, "code") ?? code.raw})` : ""}`),
		message && told("p.failure-message", message),
		detail && json(detail.raw)
	)
}

// One event: when, and what came; `extra` stands behind it.
export function eventRow(kind, node, ...extra) {
	const value = member(node, "value") ?? member(node, "head")
	const sent = says(node, "bytes")
	// What is kept of bytes is their number; a call of our own has them.
	const size = sent == null ? numberOf(member(node, "bytes")) : Math.floor((sent.replace(/=+$/, "").length * 3) / 4)
	return make(
		"li",
		{$event: kind},
		make("span.event-at.num", duration(numberOf(member(node, "at")) ?? 0)),
		told("span.event-kind", kind),
		make("div.event-value", value && answer(value.raw), size != null && told("span", {$value: size}, `${bytes(size)} of ${says(node, "type")}`), extra)
	)
}

// Copies, and calling it again; those that need the arguments only where they are kept whole.
function actions(node) {
	const given = member(node, "arguments")
	const isWhole = shown.values === "kept" && !member(given, "$left_out")
	const name = nameOf(shown)
	const off = {disabled: !isWhole, title: isWhole ? null : "Its arguments are not kept"}
	const again = button("again", "Call again …", () => {
		fillForm(name, isWhole ? given?.raw : null)
		go({view: "tools", tool: name, back: "", search: ""})
	})
	return make(
		"div.actions",
		document.documentElement.dataset.page === "call" && again,
		button("copy-call", "Copy command", () => copy(command(name, given)), off),
		button("copy-curl", "Copy curl", () => copy(curl(name, given)), off),
		button("copy-link", "Copy link", () => copy(address({view: "calls", call: String(n)})))
	)
}

const shell = text => `'${text.replaceAll("'", "'\\''")}'`
const oneLine = node => (/[\r\n]/.test(node.raw) ? compact(node) : node.raw)
const command = (name, given) => `toolbus call ${/^[\w./:@%+=,-]+$/.test(name) ? name : shell(name)}${given ? ` ${shell(oneLine(given))}` : ""}`

function curl(name, given) {
	const body = `{"tool":${quote(name)}${given ? `,"arguments":${oneLine(given)}` : ""}}`
	return `curl -sS ${location.origin}/api/call -H "Authorization: Bearer $TOOLBUS_PAGE_TOKEN" -H 'Content-Type: application/json' -d ${shell(body)}`
}

async function copy(text) {
	copied = text
	maybe(root.querySelector("[data-copied]"), text)
	try {
		await navigator.clipboard.writeText(text)
	} catch {
		// It stands there to be marked by hand.
	}
}
