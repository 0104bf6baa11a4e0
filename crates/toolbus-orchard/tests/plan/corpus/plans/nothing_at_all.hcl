scenario "empty" {}
