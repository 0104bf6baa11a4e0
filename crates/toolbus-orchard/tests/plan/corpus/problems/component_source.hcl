scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  component "x" "a" { source = "../components/missing.hcl" }
  component "x" "b" { source = "../components" }
  component "x" "c" { source = "./unknown_function.hcl" }
}
