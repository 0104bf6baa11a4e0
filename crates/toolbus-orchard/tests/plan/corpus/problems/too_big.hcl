scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  action "noop" "many" { for_each = toset([for i in range(10001) : tostring(i)]) }
}
