// A call that this page makes: its events as they come, its questions, its outcome.

import {events, post} from "./link.js"
import {member, numberOf, parse, quote, say as says} from "./json.js"
import {duration, marked, tone, words} from "./numbers.js"
import {eventRow, failureBlock} from "./call.js"
import {Fields} from "./forms.js"
import {announce, answer, button, download, make, maybe, say, set, told} from "./text.js"

const EVENTS_MAX = 500
const PARTS_MAX = 2_000
const LOST = "the bus went away before it answered"

export class Run {
	#abort = new AbortController()
	#began = performance.now()
	#head
	#parts = []
	#count = 0
	#waiting = []
	#left = 0

	// Calls a tool with arguments as JSON text, or none; `done` is told when it is over.
	constructor(name, args, done) {
		this.outcome = make("p")
		this.questions = make("div.questions")
		this.result = make("div")
		this.list = make("ol.events")
		this.more = make("p.note")
		this.element = make("div", {$output: true}, this.outcome, this.questions, this.result, this.more, this.list)
		this.#become("running")
		const body = `{"tool":${quote(name)}${args == null ? "" : `,"arguments":${args}`}}`
		this.#call(body).then(() => {
			this.#flush()
			this.questions.replaceChildren()
			announce(`${name}: ${words(this.element.dataset.outcome)}`)
			done()
		})
	}

	// Closing the stream is what cancels it.
	cancel() {
		this.#abort.abort()
	}

	async #call(body) {
		const runs = () => this.element.dataset.outcome === "running"
		try {
			const stream = await post("/api/call", body, "text/event-stream", this.#abort.signal)
			await events(stream, (kind, data) => runs() && this.#take(kind, parse(data)))
			if (runs()) this.#fail("gone", LOST)
		} catch (error) {
			if (!runs()) return
			if (error.name === "AbortError") this.#fail("cancelled", "cancelled here")
			else this.#fail(error.status ? error.kind || "failed" : "gone", error.status ? error.message : LOST)
		}
	}

	#take(kind, node) {
		if (kind === "begin") {
			this.#head = member(node, "head")
			set(this.element, {$n: numberOf(member(node, "n"))})
		} else if (kind === "part") {
			this.#count += 1
			if (this.#count <= PARTS_MAX) this.#parts.push(node)
		} else if (kind === "ask") this.#ask(node)
		else if (kind === "end") this.#end(node)
		else if (kind === "fail") {
			this.result.replaceChildren(failureBlock(node))
			this.#become(says(node, "kind") ?? "failed", numberOf(member(node, "at")))
		}
		if (this.#waiting.length === 0) requestAnimationFrame(() => this.#flush())
		this.#waiting.push([kind, node])
		// A hidden tab has no frames.
		if (2 * EVENTS_MAX < this.#waiting.length) this.#flush()
	}

	// Shows what came since the last frame; the newest alone, where there is more than fits.
	#flush() {
		const fresh = this.#waiting.slice(-EVENTS_MAX)
		this.#left += this.#waiting.length - fresh.length
		this.#waiting = []
		this.list.append(...fresh.map(([kind, node]) => row(kind, node)))
		for (; EVENTS_MAX < this.list.childElementCount; this.#left += 1) this.list.firstElementChild.remove()
		maybe(this.more, this.#left && `${this.#left} earlier events are not shown`)
	}

	#end(node) {
		const value = member(node, "value")
		const raw = this.#parts.length ? collected(this.#parts, this.#count, this.#head, value) : (value ?? this.#head)?.raw
		const part = {$part: "answer"}
		this.result.replaceChildren(make("h4", "Answer"), raw == null ? make("p.note", part, "It ended without a value.") : answer(raw, part))
		this.#become("ok", numberOf(member(node, "at")))
	}

	#fail(kind, message) {
		this.result.replaceChildren(failureBlock(parse(`{"kind":${quote(kind)},"message":${quote(message)}}`)))
		this.#become(kind)
	}

	#become(outcome, at = performance.now() - this.#began) {
		set(this.element, {$outcome: outcome})
		set(this.outcome, {class: `headline is-${tone(outcome)}`})
		say(this.outcome, `${marked(outcome)}${outcome === "running" ? "" : ` · ${duration(at)}`}`)
	}

	// A question of the tool: its fields are a form of their own.
	#ask(node) {
		const id = says(node, "ask") ?? ""
		const params = member(member(node, "question"), "params")
		const fields = new Fields(member(params, "requestedSchema") ?? parse("{}"))
		const buttons = [button("accept.primary", "Accept", null, {type: "submit"}), button("decline", "Decline", () => reply("decline"))]
		const wrong = make("p.field-error", {role: "alert", hidden: true})
		const question = told("p.question", says(params, "message") ?? "The tool asks:")
		const form = make(
			"form",
			{$ask: id, novalidate: true, "aria-label": "A question of the tool"},
			question,
			fields.element,
			wrong,
			make("div.actions", buttons, fields.toggle)
		)
		const reply = async (action, content) => {
			buttons.forEach(one => set(one, {disabled: true}))
			try {
				await post("/api/answer", `{"n":${this.element.dataset.n},"ask":${quote(id)},"action":${quote(action)}${content ? `,"content":${content}` : ""}}`)
				form.remove()
			} catch (error) {
				buttons.forEach(one => set(one, {disabled: false}))
				maybe(wrong, error.message)
			}
		}
		form.addEventListener("submit", event => {
			event.preventDefault()
			const given = fields.read()
			if (given) reply("accept", given.json ?? "{}")
		})
		this.questions.append(form)
		announce("The tool asks a question")
		form.querySelector("input, textarea, select, button").focus()
	}
}

function row(kind, node) {
	const sent = says(node, "bytes")
	if (sent == null) return eventRow(kind, node)
	const save = () => download(Uint8Array.from(atob(sent), one => one.charCodeAt(0)), "part.bin")
	return eventRow(kind, node, button("download.quiet", "Download", save))
}

// Parts as one value: texts are one text, all else is the collected form.
function collected(parts, count, head, tail) {
	const values = parts.map(part => member(part, "value"))
	const left = count - parts.length
	if (!head && !tail && !left && values.every(value => value?.kind === "string")) return quote(values.map(value => value.value).join("\n"))
	const elements = values.map((value, at) => value?.raw ?? `{"$bytes":${quote(says(parts[at], "bytes") ?? "")}}`)
	if (left) elements.push(`{"$left_out":${left}}`)
	return `{"elements":[${elements.join(",")}]${head ? `,"res":${head.raw}` : ""}${tail ? `,"tail":${tail.raw}` : ""}}`
}
