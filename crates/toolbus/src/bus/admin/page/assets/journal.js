// What the journal has: its lines as they are, the last written first.

import {fillFilter, filterField, wrongFilter} from "./calls.js"
import {member, numberOf, parse, plain, say as says} from "./json.js"
import {get, linkState} from "./link.js"
import {MARKS, bytes, duration, nameOf, some, time, tone, words} from "./numbers.js"
import {place} from "./place.js"
import {$, arrange, button, empty, failed, json, make, maybe, say, set, told} from "./text.js"

const PAGE = 100

const ui = {}
let schedule
let read
let next
let scanned = 0
let passedOver = 0

export function start(later) {
	schedule = later
	ui.filter = filterField()
	ui.wrong = wrongFilter()
	const again = button("again-journal", "Read again", () => {
		read = null
		schedule()
	})
	$("journal-bar").append(ui.filter, make("div.tools-bar", again), ui.wrong)
	ui.list = make("div.entries")
	ui.note = make("span.note")
	ui.more = button("more", "More", () => load(read, next))
	ui.foot = make("div.foot")
	$("journal-list").append(ui.list, ui.foot)
}

export const arrive = () => fillFilter(ui.filter)

export function show() {
	if (linkState() === "live" && read !== place().filter) load(place().filter)
}

async function load(filter, before) {
	read = filter
	set(ui.more, {disabled: true})
	let wrong = ""
	try {
		const node = parse(await get("/api/journal", {filter, before, limit: PAGE}))
		if (read !== filter) return
		const entries = member(node, "entries").items.map(entry)
		if (!before) scanned = passedOver = 0
		scanned += numberOf(member(node, "scanned"))
		passedOver += numberOf(member(node, "passed_over"))
		next = says(node, "next")
		const there = before ? [...ui.list.querySelectorAll("[data-entry]")] : []
		arrange(ui.list, [...there, ...entries])
		if (!ui.list.firstChild)
			ui.list.append(empty(filter ? "No entry passes this filter" : "The journal is empty", next ? "More of it can be looked through." : "That was all of it."))
	} catch (error) {
		if (read !== filter) return
		next = null
		if (error.status === 400) wrong = error.message
		arrange(ui.list, [
			error.status === 404
				? empty("There is no journal", "[journal] in the config names one.")
				: wrong
					? empty("This is no filter")
					: failed(error.message)
		])
	}
	set(ui.more, {disabled: false})
	maybe(ui.wrong, wrong)
	set(ui.filter, {"aria-invalid": wrong ? "true" : null})
	say(ui.note, scanned ? `${bytes(scanned)} looked through${passedOver ? `, ${some(passedOver, "line")} ${passedOver === 1 ? "is" : "are"} none of a journal` : ""}` : "")
	arrange(ui.foot, [next && ui.more, ui.note].filter(Boolean))
}

function entry(node) {
	const line = plain(node)
	const summary = make(
		`summary.is-${tone(line.outcome)}`,
		make("span.mark", MARKS[line.outcome] ?? ""),
		told("span.mono", nameOf(line)),
		told("span.outcome", words(line.outcome)),
		make("span.num", duration(line.duration)),
		told("span.num.when", {title: line.time}, time(line.time)),
		told("span.who", line.caller == null ? line.front : `${line.front} · ${line.caller}`)
	)
	const element = make("details", {$entry: true, $outcome: line.outcome}, summary)
	element.addEventListener("toggle", () => element.open && element.childElementCount === 1 && element.append(json(node.raw)))
	return element
}
