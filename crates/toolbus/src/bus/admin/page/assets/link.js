// The link to the bus: requests with the token, and the one stream of events, which is made again
// when it is lost.

import {keepToken, token} from "./place.js"

const AGAIN_FIRST = 1_000
const AGAIN_MAX = 10_000
// The bus says something every 15 s.
const SILENCE_MAX = 40_000

// What the bus refused; without a status, it could not be asked.
class Refusal extends Error {
	constructor(message, status, kind) {
		super(message)
		Object.assign(this, {status, kind})
	}
}

const listeners = {event: [], link: []}
let state = "connecting"
let again = AGAIN_FIRST
let timer
let stream
let lastId = ""
let watching = false

// Tells of events of the stream (`event`: name, data) and of the link (`link`: state, why).
export const on = (what, listener) => listeners[what].push(listener)
const tell = (what, ...said) => listeners[what].forEach(listener => listener(...said))

export const linkState = () => state
export const isWatching = () => watching

// Takes all values from now on, or none; the stream is asked for anew.
export function watch(wanted) {
	watching = wanted
	connect()
}

export function enter(text) {
	keepToken(text)
	become("connecting")
	hurry()
}

export function hurry() {
	again = AGAIN_FIRST
	connect()
}

// An answer of the API as text, for values have to stay as they were written.
export async function get(path, parameters = {}) {
	const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value != null && value !== ""))
	return (await ask(`${path}${query.size ? `?${query}` : ""}`)).text()
}

export const post = (path, body, accept = "application/json", signal) =>
	ask(path, {Accept: accept, "Content-Type": "application/json"}, {method: "POST", body, signal})

async function ask(path, fields, options) {
	let answer
	try {
		const headers = {...fields, Authorization: `Bearer ${token()}`}
		answer = await fetch(path, {cache: "no-store", credentials: "omit", redirect: "error", ...options, headers})
	} catch (error) {
		throw error.name === "AbortError" ? error : new Refusal("the bus does not answer")
	}
	if (answer.ok) return answer
	const told = await answer.json().catch(() => ({}))
	const message = String(told.error?.message ?? `the bus answers ${answer.status}`)
	if (answer.status === 401) {
		stream?.abort()
		clearTimeout(timer)
		become("denied", message)
	}
	throw new Refusal(message, answer.status, String(told.error?.kind ?? ""))
}

// The events of an answer: calls `take(name, data, id)` for each; ends when the stream does.
export async function events(answer, take, hear) {
	const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
	let rest = ""
	for (;;) {
		const {done, value} = await reader.read()
		if (done) return
		hear?.()
		const blocks = (rest + value).split("\n\n")
		rest = blocks.pop()
		for (const block of blocks) {
			const fields = Object.fromEntries(block.split("\n").map(line => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trimStart()]))
			if (fields.data != null) take(fields.event, fields.data, fields.id)
		}
	}
}

// Asks for the stream of events, in place of the one that is.
export async function connect() {
	clearTimeout(timer)
	stream?.abort()
	const mine = (stream = new AbortController())
	const isMine = () => stream === mine && state !== "denied"
	if (!token()) {
		become("denied")
		return
	}
	if (state === "denied") become("connecting")
	let silence
	const hear = () => {
		clearTimeout(silence)
		silence = setTimeout(() => mine.abort(), SILENCE_MAX)
	}
	let why = ""
	try {
		hear()
		const answer = await ask(`/api/events${watching ? "?values=true" : ""}`, lastId ? {"Last-Event-ID": lastId} : {}, {signal: mine.signal})
		await events(
			answer,
			(name, data, id) => {
				if (!isMine()) return
				lastId = id || lastId
				const told = JSON.parse(data)
				if (name === "bye") why = told.why
				tell("event", name, told)
				if (name !== "snapshot") return
				again = AGAIN_FIRST
				become("live")
			},
			hear
		)
	} catch (error) {
		why = error.status === 404 ? "off" : error.status ? error.message : why
	}
	clearTimeout(silence)
	if (!isMine()) return
	if (why === "off" || why === "moved") {
		become("over", why)
		return
	}
	become("lost", why)
	timer = setTimeout(connect, again)
	again = Math.min(again * 2, AGAIN_MAX)
}

function become(next, why) {
	if (state === next && next !== "denied" && next !== "lost") return
	state = next
	tell("link", next, why)
}
