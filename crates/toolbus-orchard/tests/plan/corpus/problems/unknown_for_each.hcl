scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  action "echo" "a" { text = "x" }
  action "echo" "b" {
    for_each = toset([action.echo.a.text])
    text     = each.key
  }
  action "echo" "c" {
    for_each = action.echo.a
    text     = "x"
  }
}
