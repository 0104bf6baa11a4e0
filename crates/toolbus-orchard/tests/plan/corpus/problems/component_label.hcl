scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  component "greter" "g" {
    source = "../components/greeter.hcl"
    inputs = { who = "x" }
  }
}
