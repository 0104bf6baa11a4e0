// Forms made of schemas. A field is an object that knows its element and its JSON text, checks
// itself and takes a value; what is typed for numbers stays as it was typed.

import {compact, parse, prettyText, quote} from "./json.js"
import {NUMBER, keyOf, rootOf, under, wrongNumber, wrongText} from "./schema.js"
import {arrange, button, field as textField, make, maybe, set, told} from "./text.js"

let ids = 0
const TRUTHS = [parse("true"), parse("false")]

// All fields of a schema, and the raw text in their place. `kept` are arguments to begin with.
export class Fields {
	#root
	#top
	#raw
	#isRaw

	constructor(schema, kept) {
		this.#root = rootOf(schema)
		const onlyRaw = this.#root.kind === "json"
		this.element = make("div.fields")
		this.toggle = button("raw.quiet", "Edit as JSON", () => this.#change(), {hidden: onlyRaw})
		const all = {kind: "json", title: "Arguments as JSON", description: onlyRaw ? this.#root.description : ""}
		this.#raw = jsonField(all, false)
		this.#raw.place("")
		set(this.#raw.control, {$raw: true})
		const first = kept == null ? this.#root.fallback : parse(kept)
		if (!onlyRaw) this.#top = build(this.#root, true, kept == null)
		this.#top?.place("")
		const fits = !onlyRaw && (!first || this.#top.take(first))
		if (!fits && first) this.#raw.take(first)
		this.#show(!fits)
	}

	// The arguments as JSON text, if there are any; or nothing, with the focus on what is wrong.
	read() {
		const all = this.#isRaw ? this.#raw : this.#top
		const wrong = all.check()
		wrong?.focus()
		return wrong ? null : {json: all.json()}
	}

	#change() {
		if (!this.#isRaw) {
			this.#raw.take(parse(this.#top.json()))
			this.#show(true)
			this.#raw.control.focus()
		} else if (!this.#raw.check()) {
			const top = build(this.#root, true, false)
			top.place("")
			if (top.take(parse(this.#raw.json() ?? "{}"))) {
				this.#top = top
				this.#show(false)
			} else this.#raw.say("the form has no place for all of this")
		}
	}

	#show(isRaw) {
		this.#isRaw = isRaw
		set(this.toggle, {"aria-pressed": String(isRaw)})
		arrange(this.element, [(isRaw ? this.#raw : this.#top).element])
	}
}

// The field of a kind. Defaults are filled in unless it is to be filled with something else.
function build(field, isRequired, withDefaults) {
	const made = {object, array, boolean, select, json: jsonField}[field.kind]?.(field, isRequired, withDefaults) ?? typed(field, isRequired)
	if (withDefaults && field.fallback) made.isDefault = made.take(field.fallback)
	return made
}

// Name, description and error, around a control or around other fields.
function frame(field, isRequired, what, name, control) {
	const id = `f${(ids += 1)}`
	const head = make(name, name === "label" && {for: id})
	const about = maybe(make("p.about", {id: `${id}-d`}), field.description)
	const error = make("p.field-error", {id: `${id}-e`, hidden: true})
	const self = {control: control ?? make(what), wrong: () => {}}
	set(self.control, {id, required: control && isRequired, "aria-describedby": `${id}-d ${id}-e`})
	if (control) self.element = make(what, head, about, control, error)
	else {
		self.inner = make("div.inner")
		self.element = self.control
		self.element.append(head, about, self.inner, error)
	}
	self.place = pointer => {
		set(self.control, {$field: pointer})
		set(error, {"$field-error": pointer})
		const kind = {json: "JSON", select: ""}[field.kind] ?? field.kind
		const key = keyOf(pointer.slice(pointer.lastIndexOf("/") + 1))
		arrange(
			head,
			[
				key && told("span.key", key),
				field.title && field.title !== key && told("span", field.title),
				told("span.kind", [kind, isRequired && "required"].filter(Boolean).join(", "))
			].filter(Boolean)
		)
	}
	self.say = text => {
		maybe(error, text)
		set(self.control, {"aria-invalid": text && "true"})
		return text ? self.control : null
	}
	self.check = () => self.say(self.wrong())
	return self
}

function area(least, attributes) {
	const control = textField("textarea", {rows: least, ...attributes})
	const grow = () => (control.rows = Math.min(24, Math.max(least, control.value.split("\n").length)))
	control.addEventListener("input", grow)
	control.fill = text => {
		control.value = text
		grow()
	}
	return control
}

function typed(field, isRequired) {
	const isText = field.kind === "string"
	const control = isText ? area(1) : textField("input", {inputmode: field.kind === "integer" ? "numeric" : "decimal"})
	const self = frame(field, isRequired, "div.field", "label", control)
	const text = () => (isText ? control.value : control.value.trim())
	const isNothing = () => text() === "" && !(isText && isRequired)
	self.wrong = () => (isNothing() ? isRequired && "is required" : (isText ? wrongText : wrongNumber)(field, text()))
	self.isBlank = () => text() === ""
	// What is no number is carried as the text that it is.
	self.json = () => (isNothing() ? null : isText || !NUMBER.test(text()) ? quote(text()) : text())
	self.take = node => {
		const said = node.value ?? node.raw
		// A text that may be left out and is empty cannot be told from nothing.
		const fits = isText
			? node.kind === "string" && (isRequired || said)
			: node.kind === "number" || (node.kind === "string" && said.trim() && !NUMBER.test(said))
		if (!fits) return false
		if (isText) control.fill(said)
		else control.value = said
		return true
	}
	return self
}

function select(field, isRequired, _, nodes = field.options) {
	const option = (value, label) => Object.assign(told("option", label), {value})
	const options = nodes.map(node => option(node.raw, node.value ?? node.raw))
	if (!isRequired) options.unshift(option("", ""))
	const control = make("select", options)
	const self = frame(field, isRequired, "div.field", "label", control)
	self.isBlank = () => control.selectedIndex === 0 && !self.isDefault
	self.json = () => control.value || null
	self.take = node => {
		const found = nodes.find(one => compact(one) === compact(node))
		if (found) control.value = found.raw
		return Boolean(found)
	}
	return self
}

function boolean(field, isRequired) {
	if (!isRequired) return select(field, false, false, TRUTHS)
	const control = make("input", {type: "checkbox"})
	const self = frame(field, true, "div.field", "label", control)
	self.isBlank = () => !control.checked
	self.json = () => String(control.checked)
	self.take = node => {
		control.checked = node.raw === "true"
		return node.kind === "boolean"
	}
	return self
}

function jsonField(field, isRequired) {
	const control = area(3, {$kind: "json", class: "mono"})
	const self = frame(field, isRequired, "div.field", "label", control)
	const text = () => control.value.trim()
	self.wrong = () => {
		if (!text()) return isRequired && "is required"
		try {
			parse(text())
		} catch (error) {
			return `this is no JSON: ${error.message}`
		}
	}
	self.isBlank = () => !text()
	self.json = () => (text() ? (self.wrong() ? quote(text()) : text()) : null)
	self.take = node => {
		control.fill(prettyText(node))
		return true
	}
	return self
}

// Checks all, so that every error is seen; gives the first control that is wrong.
const first = fields => fields.map(one => one.check()).find(Boolean)

function object(field, isRequired, withDefaults) {
	const self = frame(field, isRequired, "fieldset", "legend")
	const members = field.members.map(one => ({key: one.key, made: build(one.field, one.required, withDefaults)}))
	// What the schema does not name, but was given.
	let others = []
	self.inner.append(...members.map(one => one.made.element))
	if (!members.length) self.inner.append(make("p.about", "It takes no arguments."))
	self.isBlank = () => !others.length && members.every(one => one.made.isBlank())
	const isLeftOut = () => !isRequired && self.isBlank()
	const name = self.place
	self.place = pointer => {
		name(pointer)
		members.forEach(one => one.made.place(under(pointer, one.key)))
	}
	self.check = () => (isLeftOut() ? null : first(members.map(one => one.made)))
	self.json = () => {
		const given = members.map(one => [one.key, one.made.json()]).filter(([, json]) => json != null)
		return isLeftOut() ? null : `{${[...given, ...others].map(([key, json]) => `${quote(key)}:${json}`).join(",")}}`
	}
	self.take = node => {
		const entries = node.entries ?? []
		const made = key => members.find(one => one.key === key)?.made
		others = entries.filter(([key]) => !made(key)).map(([key, value]) => [key, value.raw])
		return node.kind === "object" && entries.every(([key, value]) => made(key)?.take(value) ?? true)
	}
	return self
}

function array(field, isRequired) {
	const self = frame(field, isRequired, "fieldset", "legend")
	let items = []
	let pointer = ""
	const more = withDefaults => {
		const made = build(field.item, true, withDefaults)
		const remove = button("remove.quiet", "Remove", () => {
			items = items.filter(one => one !== item)
			self.place(pointer)
			add.focus()
		})
		const item = {made, remove, element: make("div.item", made.element, remove)}
		items.push(item)
		return made
	}
	const add = button("add.quiet", "Add", () => {
		const {element} = more(true)
		self.place(pointer)
		element.querySelector("input, textarea, select, button")?.focus()
	})
	const name = self.place
	self.place = to => {
		name((pointer = to))
		set(add, {$for: to})
		items.forEach((item, at) => {
			item.made.place(under(to, at))
			set(item.remove, {$for: under(to, at), "aria-label": `Remove ${at + 1}`})
		})
		arrange(self.inner, [...items.map(item => item.element), add])
	}
	self.isBlank = () => !items.length
	self.check = () => first(items.map(item => item.made))
	// An item left out would move all behind it.
	self.json = () => (items.length || isRequired ? `[${items.map(item => item.made.json() ?? "null").join(",")}]` : null)
	self.take = node => {
		items = []
		const fits = node.kind === "array" && node.items.every(one => more(false).take(one))
		self.place(pointer)
		return fits
	}
	return self
}
