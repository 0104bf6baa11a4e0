# --target action.echo.frist
scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  action "echo" "first" { text = "x" }
}
