scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  action "echo" "a" {}
  component "greeter" "g" { source = "../components/greeter.hcl" }
  output "o" {}
  action "noop" "b" {
    retry { delay = "1s" }
  }
}
