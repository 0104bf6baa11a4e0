scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  action "echo" "a" { text = upcase("x") }
}
