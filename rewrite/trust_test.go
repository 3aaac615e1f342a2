package rewrite

import "testing"

func TestTextBehindATrustedMarkerInTheSameDeltaIsAnAnswer(t *testing.T) {
	o := Options{Imitations: ImitationsTrust}
	for _, in := range []string{
		texts("Sure\n`💻 ls`\n\ndone"),
		texts("Sure\n`💻 ", "ls`\n\ndone"),
		texts("Sure\n`💻 ls`\n\ndone\n`", "x"),
	} {
		if v := look(t, repairWith(role()+in+stop(), o)); v.finishes[0] != "stop" {
			t.Errorf("finish reason %q, want stop: %s", v.finishes, v.story())
		}
	}
	if v := look(t, repairWith(role()+text("Sure\n`💻 ls`\n")+stop(), o)); v.finishes[0] != "error" {
		t.Errorf("finish reason %q of an answer that ends on a tool, want error", v.finishes)
	}
}
