scenario "s" {
  description = "ÿ"
}
