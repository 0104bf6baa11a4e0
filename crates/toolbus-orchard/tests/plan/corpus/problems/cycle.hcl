scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  locals {
    one   = local.two
    two   = local.three
    three = local.one
    apple = action.echo.b.text
  }
  action "echo" "a" { text = local.apple }
  action "echo" "b" { text = "${action.echo.c.text}!" }
  action "noop" "between" {}
  action "echo" "c" {
    text       = "x"
    depends_on = [action.echo.a]
  }
  action "echo" "alone" { text = action.echo.alone.text }
}
