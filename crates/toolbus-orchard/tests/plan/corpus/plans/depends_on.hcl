scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  action "noop" "before" { depends_on = [component.greeter.g] }
  component "greeter" "g" {
    source     = "../components/greeter.hcl"
    inputs     = { who = "you" }
    depends_on = [action.echo.start]
  }
  action "echo" "start" { text = "go" }
}
