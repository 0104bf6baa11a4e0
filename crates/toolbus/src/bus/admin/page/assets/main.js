// Where the page begins: which view is shown, the frames in which it draws, and what is said about
// the link.

import * as calls from "./calls.js"
import * as config from "./config.js"
import * as journal from "./journal.js"
import * as overview from "./overview.js"
import * as tools from "./tools.js"
import {common, help, keysOf, listen} from "./keys.js"
import {connect, enter, hurry, linkState, on} from "./link.js"
import {VIEWS, arrive, onPlace, place} from "./place.js"
import {onStore, store, take} from "./store.js"
import {$, arrange, button, make, maybe, say, set, told} from "./text.js"

const views = {overview, calls, tools, journal, config}
const section = name => document.querySelector(`main section[data-view="${name}"]`)
const page = document.documentElement

let wanted
let timer

// Draws in the next frame, once, however often it is asked for. A hidden tab has no frames.
function schedule() {
	wanted ??= requestAnimationFrame(() => {
		wanted = null
		clearTimeout(timer)
		const wait = views[place().view].show()
		if (wait != null) timer = setTimeout(schedule, wait)
	})
}

function showView(at, before = at) {
	for (const name of VIEWS) {
		set(section(name), {hidden: name !== at.view})
		set(document.querySelector(`nav a[data-view="${name}"]`), {"aria-current": name === at.view && "page"})
	}
	views[at.view].arrive?.(at)
	if (before.view !== at.view) {
		scrollTo(0, 0)
		section(at.view).querySelector("h2").focus({preventScroll: true})
	}
	title()
	schedule()
}

const title = () => (document.title = [section(place().view).querySelector("h2").textContent, store.state?.name, "toolbus"].filter(Boolean).join(" · "))

function showState() {
	const {state} = store
	if (page.dataset.page !== state.page) tools.repaint()
	page.dataset.page = state.page
	say(set($("bus"), {title: `${state.config}, toolbus ${state.version}`}), state.name)
	title()
}

function showLink(state, why) {
	page.dataset.link = state
	say($("link"), state === "denied" ? "not signed in" : state)
	if (state === "lost") arrange($("notices"), [lost(why)])
	else if (state === "over") arrange($("notices"), [over(why)])
	else if (state === "denied") {
		const form = tokenForm(why)
		arrange($("notices"), [form])
		form.querySelector("input").focus()
	} else arrange($("notices"), [])
	schedule()
}

const notice = (...what) => make("div.notice.bad", {$error: true, role: "alert"}, make("p", what[0]), what[1])

function lost(why) {
	const reason = why === "stopping" ? "toolbus serve has ended" : why || "the bus does not answer"
	return notice(told("span", `Connection lost: ${reason}. What is shown is from before; it is tried again.`), button("again-link", "Try now", hurry))
}

const over = why =>
	notice(
		why === "moved"
			? "This page has moved to another address; the command says where it is."
			: "The page was turned off: [admin] page in the config lets it be seen again.",
		make("code", "toolbus page")
	)

function tokenForm(why) {
	const field = make("input", {type: "password", id: "token", name: "token", autocomplete: "off", required: true})
	const wrong = maybe(
		make("p.field-error", {$error: true, role: "alert"}),
		why && "This is not the token of the bus that runs; each start makes a new one."
	)
	const form = make(
		"form.card",
		{$token: true},
		make("h2", "Sign in"),
		make("p", "This page asks for a token: ", make("code", "toolbus page"), " prints its address with it."),
		make("label", {for: "token"}, "Token or address"),
		field,
		wrong,
		button("enter.primary", "Show the page", null, {type: "submit"})
	)
	form.addEventListener("submit", event => {
		event.preventDefault()
		const text = field.value.trim()
		enter(/[#&]token=([^&]+)/.exec(text)?.[1] ?? text)
	})
	return form
}

on("event", (name, data) => {
	take(name, data)
	if (name !== "tick") showState()
	schedule()
})
on("link", showLink)
onPlace(showView)
onStore(schedule)
for (const name of VIEWS) {
	keysOf(name, common({}))
	views[name].start(schedule)
}
listen()
for (const moved of ["popstate", "hashchange"]) {
	addEventListener(moved, () => {
		const token = arrive()
		if (token != null) enter(token)
	})
}
document.addEventListener("visibilitychange", schedule)
document.querySelector("[data-action=help]").addEventListener("click", help)
showLink(linkState(), "")
arrive()
connect()
