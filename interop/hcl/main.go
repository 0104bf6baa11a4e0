// Command hcl evaluates expressions with the reference implementation of HCL, one a line, and
// prints what becomes of each: `EXPRESSION → JSON : TYPE`, or `EXPRESSION → error`.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// Functions that mean the same there and here, by the names that scenarios have for them.
var functions = map[string]function.Function{
	"abs":             stdlib.AbsoluteFunc,
	"can":             tryfunc.CanFunc,
	"ceil":            stdlib.CeilFunc,
	"chomp":           stdlib.ChompFunc,
	"chunklist":       stdlib.ChunklistFunc,
	"coalesce":        stdlib.CoalesceFunc,
	"coalescelist":    stdlib.CoalesceListFunc,
	"compact":         stdlib.CompactFunc,
	"concat":          stdlib.ConcatFunc,
	"contains":        stdlib.ContainsFunc,
	"csvdecode":       stdlib.CSVDecodeFunc,
	"distinct":        stdlib.DistinctFunc,
	"element":         stdlib.ElementFunc,
	"flatten":         stdlib.FlattenFunc,
	"floor":           stdlib.FloorFunc,
	"format":          stdlib.FormatFunc,
	"formatdate":      stdlib.FormatDateFunc,
	"formatlist":      stdlib.FormatListFunc,
	"indent":          stdlib.IndentFunc,
	"join":            stdlib.JoinFunc,
	"jsondecode":      stdlib.JSONDecodeFunc,
	"jsonencode":      stdlib.JSONEncodeFunc,
	"keys":            stdlib.KeysFunc,
	"length":          stdlib.LengthFunc,
	"log":             stdlib.LogFunc,
	"lookup":          stdlib.LookupFunc,
	"lower":           stdlib.LowerFunc,
	"max":             stdlib.MaxFunc,
	"merge":           stdlib.MergeFunc,
	"min":             stdlib.MinFunc,
	"parseint":        stdlib.ParseIntFunc,
	"pow":             stdlib.PowFunc,
	"range":           stdlib.RangeFunc,
	"regex":           stdlib.RegexFunc,
	"regexall":        stdlib.RegexAllFunc,
	"reverse":         stdlib.ReverseListFunc,
	"setintersection": stdlib.SetIntersectionFunc,
	"setproduct":      stdlib.SetProductFunc,
	"setsubtract":     stdlib.SetSubtractFunc,
	"setunion":        stdlib.SetUnionFunc,
	"signum":          stdlib.SignumFunc,
	"slice":           stdlib.SliceFunc,
	"sort":            stdlib.SortFunc,
	"split":           stdlib.SplitFunc,
	"strlen":          stdlib.StrlenFunc,
	"strrev":          stdlib.ReverseFunc,
	"substr":          stdlib.SubstrFunc,
	"timeadd":         stdlib.TimeAddFunc,
	"title":           stdlib.TitleFunc,
	"tobool":          stdlib.MakeToFunc(cty.Bool),
	"tolist":          stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType)),
	"tomap":           stdlib.MakeToFunc(cty.Map(cty.DynamicPseudoType)),
	"tonumber":        stdlib.MakeToFunc(cty.Number),
	"toset":           stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)),
	"tostring":        stdlib.MakeToFunc(cty.String),
	"trim":            stdlib.TrimFunc,
	"trimprefix":      stdlib.TrimPrefixFunc,
	"trimspace":       stdlib.TrimSpaceFunc,
	"trimsuffix":      stdlib.TrimSuffixFunc,
	"try":             tryfunc.TryFunc,
	"upper":           stdlib.UpperFunc,
	"values":          stdlib.ValuesFunc,
	"zipmap":          stdlib.ZipmapFunc,
}

func main() {
	context := &hcl.EvalContext{Functions: functions}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		text := lines.Text()
		if text == "" || strings.HasPrefix(text, "#") {
			fmt.Println(text)
			continue
		}
		text, _, _ = strings.Cut(text, " → ")
		fmt.Printf("%s → %s\n", text, evaluated(text, context))
	}
}

func evaluated(text string, context *hcl.EvalContext) string {
	expression, wrong := hclsyntax.ParseExpression([]byte(text), "", hcl.InitialPos)
	if wrong.HasErrors() {
		return "error"
	}
	value, wrong := expression.Value(context)
	if wrong.HasErrors() {
		if os.Getenv("WHY") != "" {
			return "error " + wrong.Error()
		}
		return "error"
	}
	var out bytes.Buffer
	write(&out, value)
	return out.String() + " : " + typed(value.Type())
}

func write(out *bytes.Buffer, value cty.Value) {
	ty := value.Type()
	switch {
	case !value.IsKnown():
		out.WriteString("unknown")
	case value.IsNull():
		out.WriteString("null")
	case ty == cty.Bool:
		fmt.Fprint(out, value.True())
	case ty == cty.Number:
		out.WriteString(value.AsBigFloat().Text('f', -1))
	case ty == cty.String:
		quote(out, value.AsString())
	case ty.IsListType() || ty.IsSetType() || ty.IsTupleType():
		out.WriteByte('[')
		for at, it := 0, value.ElementIterator(); it.Next(); at++ {
			if at > 0 {
				out.WriteByte(',')
			}
			_, element := it.Element()
			write(out, element)
		}
		out.WriteByte(']')
	default:
		members := value.AsValueMap()
		names := make([]string, 0, len(members))
		for name := range members {
			names = append(names, name)
		}
		sort.Strings(names)
		out.WriteByte('{')
		for at, name := range names {
			if at > 0 {
				out.WriteByte(',')
			}
			quote(out, name)
			out.WriteByte(':')
			write(out, members[name])
		}
		out.WriteByte('}')
	}
}

func quote(out *bytes.Buffer, text string) {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text)
	out.Truncate(out.Len() - 1)
}

func typed(ty cty.Type) string {
	switch {
	case ty == cty.DynamicPseudoType:
		return "any"
	case ty.IsPrimitiveType():
		return ty.FriendlyName()
	case ty.IsListType():
		return "list(" + typed(ty.ElementType()) + ")"
	case ty.IsSetType():
		return "set(" + typed(ty.ElementType()) + ")"
	case ty.IsMapType():
		return "map(" + typed(ty.ElementType()) + ")"
	case ty.IsTupleType():
		var types []string
		for _, element := range ty.TupleElementTypes() {
			types = append(types, typed(element))
		}
		return "tuple([" + strings.Join(types, ",") + "])"
	}
	var members []string
	for name, member := range ty.AttributeTypes() {
		if !hclsyntax.ValidIdentifier(name) || name == "true" || name == "false" || name == "null" {
			name = strconv.Quote(name)
		}
		members = append(members, name+"="+typed(member))
	}
	sort.Strings(members)
	return "object({" + strings.Join(members, ",") + "})"
}
