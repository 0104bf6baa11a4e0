scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  locals { said = component.greeter.g.line }
  component "greeter" "g" {
    source = "../components/greeter.hcl"
    inputs = { who = local.said }
  }
}
