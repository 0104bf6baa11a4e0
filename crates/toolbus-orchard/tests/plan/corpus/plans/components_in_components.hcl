scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  component "pair" "p" {
    source = "../components/pair.hcl"
    inputs = merge({ who = "you" }, { punctuation = "?" })
  }
  output "both" { value = component.pair.p.both }
}
