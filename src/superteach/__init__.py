"""superteach: several owners of private rows teach one model together.

from sklearn.linear_model import LogisticRegression
from superteach import SuperTeacher

teacher = SuperTeacher(LogisticRegression(fit_intercept=False), goal=theta_star, budget=0.04)
teacher.fit(X, y, groups=owner).lesson_.risk
"""

from superteach import errors, goals, losses, solvers
from superteach.engines.inprocess import InProcess
from superteach.errors import SuperteachError
from superteach.estimators import SuperTeacher
from superteach.federation import Federation
from superteach.learner import Learner
from superteach.lesson import Lesson
from superteach.teacher import Teacher
from superteach.teaching import teach

__version__ = "0.1.0"

__all__ = [
    "Federation",
    "InProcess",
    "Learner",
    "Lesson",
    "SuperTeacher",
    "SuperteachError",
    "Teacher",
    "errors",
    "goals",
    "losses",
    "solvers",
    "teach",
]
