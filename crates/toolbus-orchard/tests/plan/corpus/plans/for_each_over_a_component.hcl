scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  component "greeter" "g" {
    for_each = toset(["a", "b"])
    source   = "../components/greeter.hcl"
    inputs   = { who = each.value }
  }
  output "b" { value = component.greeter.g["b"].line }
  output "lines" { value = [for greeter in component.greeter.g : greeter.line] }
}
