scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  # Written from the last to the first: the references say what comes when.
  action "echo" "last" { text = "${action.echo.middle.text}!" }
  action "echo" "middle" { text = action.echo.first.text }
  action "echo" "first" { text = "a" }
  action "noop" "free" {}
}
