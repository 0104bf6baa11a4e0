scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  locals {
    people = {
      adam = { greeting = "hi", times = 2 }
      zoe  = { greeting = "hello", times = 1 }
    }
  }
  action "echo" "hello" {
    for_each = local.people
    text     = "${each.value.greeting} ${each.key}"
    times    = each.value.times
  }
  # One needs the instance of its own key only.
  action "echo" "again" {
    for_each = local.people
    text     = action.echo.hello[each.key].text
  }
}
