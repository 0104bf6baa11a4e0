// What a JSON Schema asks for, as far as a form can: the kind of each field, and what is surely
// wrong with a value. Schemas are nodes, so keys like `__proto__` are keys like others.

import {member, numberOf, say, textOf} from "./json.js"

const DEPTH = 4
const FIELDS = 500
const RAW = ["oneOf", "anyOf", "allOf", "not", "if", "patternProperties", "prefixItems"]
export const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/

export const under = (pointer, key) => `${pointer}/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`

export const keyOf = step => step.replaceAll("~1", "/").replaceAll("~0", "~")

export function rootOf(schema) {
	// The root itself is none of those that are counted.
	const budget = {left: FIELDS + 1}
	const field = fieldOf(schema, schema, 0, [], budget)
	return field.kind === "object" && 0 <= budget.left ? field : {...field, kind: "json"}
}

// The field of a schema: {kind, schema, title, description, fallback} with `options` of a select,
// `item` of an array, `members` of an object. `depth` counts the steps from the root.
function fieldOf(root, outer, depth, within, budget) {
	budget.left -= 1
	let schema = outer
	const seen = [...within]
	while (schema && member(schema, "$ref")) {
		schema = named(root, say(schema, "$ref"))
		if (seen.includes(schema)) schema = null
		seen.push(schema)
	}
	const about = key => member(outer, key) ?? member(schema, key)
	const field = {kind: "json", schema, title: textOf(about("title")), description: textOf(about("description")), fallback: about("default")}
	if (schema?.kind !== "object" || budget.left < 0 || RAW.some(key => member(schema, key))) return field
	const only = member(schema, "const")
	const options = only ? [only] : member(schema, "enum")?.items
	if (options?.length) return {...field, kind: "select", options}
	const properties = member(schema, "properties")
	const type = typeOf(schema) ?? (depth === 0 && properties ? "object" : "")
	const inner = one => fieldOf(root, one, depth + 1, seen, budget)
	if (type === "object" && properties?.entries && depth <= DEPTH) {
		const required = member(schema, "required")?.items?.map(textOf) ?? []
		const members = properties.entries.map(([key, value]) => ({key, required: required.includes(key), field: inner(value)}))
		return {...field, kind: "object", members}
	}
	const items = member(schema, "items")
	if (type === "array" && items?.kind === "object" && depth <= DEPTH) return {...field, kind: "array", item: inner(items)}
	return {...field, kind: ["string", "integer", "number", "boolean"].includes(type) ? type : "json"}
}

// The one type that it has beside null.
function typeOf(schema) {
	const types = member(schema, "type")?.items?.map(textOf)
	const others = types?.filter(one => one !== "null")
	return types ? (others.length === 1 && types.length === 2 ? others[0] : "") : say(schema, "type")
}

function named(root, reference = "") {
	if (reference[0] !== "#") return
	let at = root
	for (const step of reference.slice(1).split("/").slice(1)) {
		let key = step
		try {
			key = decodeURIComponent(step)
		} catch {
			// Not percent-encoded after all.
		}
		key = keyOf(key)
		at = at?.kind === "array" ? at.items[key] : member(at, key)
	}
	return at
}

// What is wrong with a text that was typed for a number.
export function wrongNumber(field, text) {
	const isWhole = field.kind === "integer"
	if (!NUMBER.test(text) || (isWhole && !Number.isInteger(Number(text)))) return isWhole ? "must be a whole number" : "must be a number"
	const beyond = (key, fails) => {
		const bound = member(field.schema, key)
		return bound?.kind === "number" && fails(compare(text, bound.raw)) && bound.raw
	}
	const [least, most] = [beyond("minimum", by => by < 0), beyond("maximum", by => 0 < by)]
	if (least || most) return `must be at ${least ? "least" : "most"} ${least || most}`
}

// Exact for whole numbers of any length.
function compare(one, other) {
	const areWhole = [one, other].every(text => /^-?\d+$/.test(text))
	return Number(areWhole ? BigInt(one) - BigInt(other) : Number(one) - Number(other))
}

export function wrongText(field, text) {
	const {length} = [...text]
	const bound = key => numberOf(member(field.schema, key))
	if (length < bound("minLength")) return `must have at least ${bound("minLength")} characters`
	if (bound("maxLength") < length) return `must have at most ${bound("maxLength")} characters`
}
