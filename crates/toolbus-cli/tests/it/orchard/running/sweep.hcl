scenario "sweep" {
  required_providers {
    e = { source = "exec:./orchard-echo" }
  }
  action "echo" "a" {
    text = "a"
    lifecycle {
      teardown { text = "undo a" }
    }
  }
  action "echo" "b" {
    text = "b ${action.echo.a.text}"
    lifecycle {
      teardown { text = "undo b a" }
    }
  }
}
