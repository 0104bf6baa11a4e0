scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  component "with_providers" "c" { source = "../components/with_providers.hcl" }
}
