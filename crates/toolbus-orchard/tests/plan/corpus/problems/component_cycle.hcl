scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  component "ping" "p" { source = "../components/ping.hcl" }
}
