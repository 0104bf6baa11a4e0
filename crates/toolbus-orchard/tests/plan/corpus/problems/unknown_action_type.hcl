scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  action "ehco" "a" { text = "x" }
  action "stripe_charge" "b" { amount = 1 }
  action "echoo" "c" {
    provider = e
    text     = "x"
  }
}
