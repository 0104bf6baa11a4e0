scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  desciption = "x"
  action "echo" "a" {
    txt = "x"
  }
  component "greeter" "g" {
    source = "../components/greeter.hcl"
    inputs = { who = "a", whom = "b" }
  }
  provider "e" { greting = "x" }
}
